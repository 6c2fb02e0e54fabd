//! `aotc inspect`: shows the contents of a compiled module.

use pirn_format::FormatError;
use pirn_format::header::short_hash;
use pirn_format::image::ImageRun;
use pirn_format::metadata::{ExportItem, Metadata};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::text::plain;
use pirn_format::types::{AddrType, ExternType};
use std::fmt::Write;

/// Describes a compiled module after checking it, one fact per line.
pub(crate) fn describe(file: &[u8]) -> Result<String, FormatError> {
    let checked = Checked::new(file)?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, &checked, file.len());
    Ok(text)
}

fn write(out: &mut String, checked: &Checked, file_bytes: usize) -> std::fmt::Result {
    let (header, m) = (&checked.header, &checked.metadata);
    if let Some(name) = &m.name {
        writeln!(out, "name       {}", plain(name))?;
    }
    writeln!(out, "target     {}", header.cpu.arch())?;
    let cpu = header.cpu.name();
    match header.cpu.is_empty() {
        true => writeln!(out, "cpu        {cpu}")?,
        false => writeln!(out, "cpu        {cpu}: {}", header.cpu)?,
    }
    writeln!(out, "format     {}", pirn_format::FORMAT_VERSION)?;
    writeln!(out, "hash       {}", short_hash(&header.hash))?;
    let source = &m.source;
    let sha256: String = source
        .wasm_sha256
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    writeln!(out, "wasm       sha256 {sha256}")?;
    writeln!(out, "compiler   {}", plain(&source.compiler))?;
    writeln!(out, "options    {}", plain(&source.options))?;
    if let Some(snapshot) = &m.snapshot {
        write!(out, "snapshot   of {}", short_hash(&snapshot.of))?;
        let names = snapshot.made_by.iter().map(|name| plain(name).to_string());
        match names.collect::<Vec<_>>().as_slice() {
            [] => writeln!(out)?,
            names => writeln!(out, ", made by {}", names.join(", "))?,
        }
    }
    let defined = m.funcs.len() as u32 - m.imported_funcs();
    writeln!(
        out,
        "functions  {defined} defined, {} imported",
        m.imported_funcs()
    )?;
    for memory in &m.memories {
        let page = memory.page.bytes();
        let max = memory.max.map_or(String::from("no maximum"), |max| {
            format!("at most {}", bytes(max.saturating_mul(page)))
        });
        let min = bytes(memory.min.saturating_mul(page));
        let address = match memory.address {
            AddrType::I32 => "",
            AddrType::I64 => "i64 ",
        };
        let shared = if memory.shared { ", shared" } else { "" };
        writeln!(out, "memory     {address}{min}, {max}{shared}")?;
    }
    if m.heap {
        writeln!(out, "heap       the module allocates structs or arrays")?;
    }
    for table in &m.tables {
        writeln!(out, "table      {table}")?;
    }
    image(out, &checked.runs)?;
    let further = m.snapshot.iter().flat_map(|snapshot| &snapshot.further);
    further.into_iter().try_for_each(|runs| image(out, runs))?;
    if let Some(component) = &m.component {
        let paths = |path: &[String]| plain(&path.join("#")).to_string();
        writeln!(out, "component  {} instances", component.instances)?;
        for path in &component.imported_resources {
            writeln!(out, "  import {}: resource", paths(path))?;
        }
        for import in &component.imports {
            let ty = component.describe_func(&component.funcs[import.ty as usize]);
            writeln!(out, "  import {}: {}", paths(&import.path), plain(&ty))?;
        }
        for export in &component.exports {
            let ty = component.describe_func(&component.funcs[export.ty as usize]);
            writeln!(out, "  export {}: {}", paths(&export.path), plain(&ty))?;
        }
    }
    writeln!(
        out,
        "instance   {}",
        bytes(u64::from(checked.layout.bytes()))
    )?;
    let fuel = if m.fuel { "counted" } else { "not counted" };
    writeln!(out, "fuel       {fuel}")?;
    imports(out, m)?;
    exports(out, m)?;
    writeln!(out, "sections")?;
    for section in Section::ALL {
        let range = header.section(section);
        writeln!(
            out,
            "  {:<16} {:>10} bytes at {:#x}",
            section.name(),
            range.len,
            range.vaddr
        )?;
    }
    writeln!(out, "  {:<16} {file_bytes:>10} bytes", "file")
}

fn image(out: &mut String, runs: &[ImageRun]) -> std::fmt::Result {
    let pages: u32 = runs.iter().map(|run| run.pages).sum();
    writeln!(out, "image      {pages} pages in {} runs", runs.len())
}

fn imports(out: &mut String, m: &Metadata) -> std::fmt::Result {
    writeln!(out, "imports    {}", m.imports.len())?;
    for import in &m.imports {
        let (module, name) = (plain(&import.module), plain(&import.name));
        writeln!(out, "  {module}.{name}: {}", describe_type(m, &import.ty))?;
    }
    Ok(())
}

fn exports(out: &mut String, m: &Metadata) -> std::fmt::Result {
    writeln!(out, "exports    {}", m.exports.len())?;
    for export in &m.exports {
        let ty = match export.item {
            ExportItem::Func(i) => ExternType::Func(m.funcs[i as usize]),
            ExportItem::Table(i) => ExternType::Table(m.tables[i as usize]),
            ExportItem::Memory(i) => ExternType::Memory(m.memories[i as usize]),
            ExportItem::Global(i) => ExternType::Global(m.globals[i as usize]),
            ExportItem::Tag(i) => ExternType::Tag(m.tags[i as usize]),
        };
        writeln!(out, "  {}: {}", plain(&export.name), describe_type(m, &ty))?;
    }
    Ok(())
}

fn describe_type(m: &Metadata, ty: &ExternType) -> String {
    match ty {
        ExternType::Func(ty) => format!("func {}", m.func_type(*ty)),
        ExternType::Table(ty) => format!("table {ty}"),
        ExternType::Memory(ty) => format!("memory {ty}"),
        ExternType::Global(ty) => format!("global {ty}"),
        ExternType::Tag(ty) => format!("tag {}", m.func_type(*ty)),
    }
}

/// A number of bytes in the largest unit that divides the number.
fn bytes(count: u64) -> String {
    match count {
        0 => "0 bytes".to_owned(),
        n if n.is_multiple_of(1 << 30) => format!("{} GiB", n >> 30),
        n if n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}
