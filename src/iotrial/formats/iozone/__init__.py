"""What IOzone writes: tables, Excel reports, throughput, spreadsheets."""
