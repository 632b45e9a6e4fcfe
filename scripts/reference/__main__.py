from scripts.reference import write

write()
