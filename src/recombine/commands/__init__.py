"""The commands: one file each, with a frozen dataclass of Options and a function run(options)."""
