"""What any dd prints, in any language."""
