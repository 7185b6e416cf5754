//! Devices in one line: `name,uuid,minor,flags,table[,table...]`, with `;` between them (dmsetup(8), "CONCISE FORMAT"). A
//! backslash takes the next character as it is.

use shingle_host::control::protocol::MappedDevice;

/// A device to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDevice {
    /// Its name.
    pub name: String,
    /// Its UUID, or nothing.
    pub uuid: String,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Its table, a line for each target; `None`: it gets none.
    pub table: Option<String>,
}

/// Reads devices. Numbers are chosen by the daemon, so `minor` is read and not used.
///
/// # Errors
/// What is wrong with the first bad one.
pub fn parse(text: &str) -> Result<Vec<NewDevice>, String> {
    let devices = split(text)?;
    devices.into_iter().map(new_device).collect()
}

/// The fields of each device.
fn split(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut devices, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => field.push(chars.next().ok_or("a backslash at the end stands before nothing: write two of them")?),
            ',' => fields.push(std::mem::take(&mut field)),
            ';' => {
                fields.push(std::mem::take(&mut field));
                devices.push(std::mem::take(&mut fields));
            }
            // Between fields.
            c if c.is_whitespace() && field.is_empty() => {}
            c => field.push(c),
        }
    }
    if !field.is_empty() || !fields.is_empty() {
        fields.push(field);
        devices.push(fields);
    }
    if devices.is_empty() { Err("there is no device: write name,uuid,minor,flags,table".into()) } else { Ok(devices) }
}

fn new_device(fields: Vec<String>) -> Result<NewDevice, String> {
    let [name, uuid, minor, flags, table @ ..] = fields.as_slice() else {
        return Err(format!("`{}` is not a device: write name,uuid,minor,flags,table", fields.join(",")));
    };
    if !minor.is_empty() && minor.parse::<u32>().is_err() {
        return Err(format!("`{name}`: the minor number is `{minor}`: write a number, or nothing"));
    }
    let read_only = match flags.as_str() {
        "ro" => true,
        "rw" | "" => false,
        other => return Err(format!("`{name}`: the flags are `{other}`: write ro, rw or nothing")),
    };
    let table = (!table.is_empty()).then(|| table.join("\n"));
    Ok(NewDevice { name: name.clone(), uuid: uuid.clone(), read_only, table })
}

/// Writes devices with the lines of their tables as [`parse`] reads them.
pub fn write(devices: &[MappedDevice]) -> String {
    let devices: Vec<String> = devices.iter().map(write_one).collect();
    devices.join(";") + "\n"
}

fn write_one(device: &MappedDevice) -> String {
    let flags = if device.read_only { "ro" } else { "rw" };
    let mut shown = format!("{},{},{},{flags}", quote(&device.name), quote(&device.uuid), device.minor);
    for line in device.lines() {
        shown += &format!(",{} {} {} {}", line.start, line.length, line.target, quote(&line.arguments));
    }
    shown
}

fn quote(text: &str) -> String {
    text.chars().flat_map(|c| ",;\\".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::example;
    use super::*;
    use shingle_host::control::protocol::TargetLine;

    #[test]
    fn the_example_of_the_manual_is_read() {
        let devices = parse("dev1,,,,0 100 linear 253:1 0,100 100 error;dev2,,,ro,0 1 error").unwrap();
        let table = |text: &str| Some(text.to_owned());
        let dev1 = NewDevice {
            name: "dev1".into(),
            uuid: String::new(),
            read_only: false,
            table: table("0 100 linear 253:1 0\n100 100 error"),
        };
        let dev2 = NewDevice { name: "dev2".into(), read_only: true, table: table("0 1 error"), ..dev1.clone() };
        assert_eq!(devices, [dev1, dev2]);
    }

    #[test]
    fn what_is_written_is_read_back_whatever_is_in_it() {
        let (target, arguments) = ("linear".into(), "a\\ b,c;d 0".into());
        let line = TargetLine { start: 0, length: 8, target, arguments, figures: None };
        let device = MappedDevice { uuid: "u;v".into(), read_only: true, lines: Some(vec![line]), ..example("x,y", 3) };
        let shown = write(&[device.clone(), device]);
        assert_eq!(shown.matches("x\\,y,u\\;v,3,ro,0 8 linear a\\\\ b\\,c\\;d 0").count(), 2, "{shown}");
        let read = parse(&shown).unwrap();
        assert_eq!((read[1].name.as_str(), read[1].uuid.as_str()), ("x,y", "u;v"));
        assert_eq!(read[1].table.as_deref(), Some("0 8 linear a\\ b,c;d 0"));
    }

    #[test]
    fn wrong_devices_are_named() {
        for (text, says) in [
            ("", "no device"),
            ("a,b,c", "`a,b,c` is not a device"),
            ("a,,x,rw,0 1 error", "minor number is `x`"),
            ("a,,,rx,0 1 error", "flags are `rx`"),
            ("a,,,,0 1 error\\", "backslash"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert_eq!(parse("a,,,").unwrap()[0].table, None);
    }
}
