"""iotrial_suites"""
