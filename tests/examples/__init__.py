"""The inventories of examples/, and the default, against their recorded plans."""
