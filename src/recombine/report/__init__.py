"""Reports: records of runs, and the pictures, tables and pages made from them."""
