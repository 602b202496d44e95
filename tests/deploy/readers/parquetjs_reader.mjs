import parquet from "@dsnp/parquetjs";
const isList = value => value !== null && typeof value === "object" && "list" in value;
for (const path of process.argv.slice(2)) {
  const reader = await parquet.ParquetReader.openFile(path); const cursor = reader.getCursor();
  const columns = {}; let row;
  while ((row = await cursor.next())) for (const [name, value] of Object.entries(row)) (columns[name] ??= []).push(isList(value) ? (value.list ?? []).map(x => x.element) : value);
  console.log(JSON.stringify(columns, (_, value) => typeof value === "bigint" ? String(value) : value)); await reader.close();
}
