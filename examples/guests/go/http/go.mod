// build.sh replaces this file by that of the generated bindings.
module wit_component

go 1.25
