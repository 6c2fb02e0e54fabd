;; Reads an element of a table, and writes one.
(module
  (table (export "table") 4 externref)
  (func (export "run") (param i32 i32)
    (table.set (local.get 0) (table.get (local.get 1)))))
