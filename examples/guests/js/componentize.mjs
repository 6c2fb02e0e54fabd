// Makes a component of a script: node componentize.mjs SCRIPT WIT WORLD COMPONENT

import { writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [sourcePath, witPath, worldName, out] = process.argv.slice(2);
const { component } = await componentize({ sourcePath, witPath, worldName });
await writeFile(out, component);
