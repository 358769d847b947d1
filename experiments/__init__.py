"""The programs: flags in, tables and figures out."""
