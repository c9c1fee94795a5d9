"""Programs for maintainers: the documentation site, its generated pages, the bill of materials."""
