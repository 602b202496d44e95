import {readFileSync} from "fs"; import {tableFromIPC} from "apache-arrow"; import {readParquet} from "parquet-wasm/node";
for (const path of process.argv.slice(2)) {
  const table = tableFromIPC(readParquet(new Uint8Array(readFileSync(path))).intoIPCStream());
  const columns = Object.fromEntries(table.schema.fields.map(f => [f.name, [...table.getChild(f.name)].map(v => v && v.toArray ? [...v.toArray()] : v)]));
  console.log(JSON.stringify(columns, (_, value) => typeof value === "bigint" ? String(value) : value));
}
