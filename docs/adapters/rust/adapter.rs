//! adapter: makes my_reader a decoder for `ckptspec conform`: prints a file's neutral document.

mod my_reader;

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::process::ExitCode;

const ACCEPTED: u8 = 0; // exit status; a panic ends with 101, which is a crash to the suite
const REJECTED: u8 = 1;
const TROUBLE: u8 = 2; // says nothing about the file

fn text(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\0'..='\x1f' => json += &format!("\\u{:04x}", character as u32),
            _ => json.push(character),
        }
    }
    json + "\""
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn tensor(tensor: &my_reader::Tensor) -> String {
    let shape = list(tensor.shape.iter().map(|extent| format!("\"{extent}\""))); // 64-bit integers are strings
    let (name, dtype) = (text(&tensor.name), text(tensor.dtype));
    let mut json = format!("{{\"name\":{name},\"dtype\":{dtype},\"shape\":[{shape}],\"data\":\"");
    for byte in tensor.data {
        let _ = write!(json, "{byte:02x}");
    }
    json + "\"}"
}

fn document(file: &my_reader::File) -> String {
    let metadata = match &file.metadata {
        None => String::from("null"),
        Some(pairs) => format!("{{{}}}", list(pairs.iter().map(|(key, value)| text(key) + ":" + &text(value)))),
    };
    let tensors = list(file.tensors.iter().map(tensor));
    format!("{{\"format\":\"safetensors\",\"metadata\":{metadata},\"tensors\":[{tensors}]}}\n")
}

fn decode() -> io::Result<u8> {
    let mut data = Vec::new();
    match std::env::args_os().nth(1) {
        Some(path) => data = std::fs::read(path)?,
        None => drop(io::stdin().read_to_end(&mut data)?),
    }
    let (status, answer) = match my_reader::read(&data) {
        Ok(file) => (ACCEPTED, document(&file)),
        Err(error) => {
            let (message, offset) = (text(&error.message), error.offset);
            (REJECTED, format!("{{\"error\":{{\"message\":{message},\"offset\":{offset}}}}}\n"))
        }
    };
    io::stdout().write_all(answer.as_bytes())?;
    io::stdout().flush()?;
    Ok(status)
}

fn main() -> ExitCode {
    ExitCode::from(decode().unwrap_or_else(|error| {
        eprintln!("{error}");
        TROUBLE
    }))
}
