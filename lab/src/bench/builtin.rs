//! Stacks that need no file: `null`, `null,plug`, `null,plug,linear,linear`.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::Table;
use shingle_core::plug::PlugOptions;

use shingle_host::config::add_plug;

/// The layers of a built-in stack, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinStack {
    /// The null device.
    pub null: NullConfig,
    /// Layers above it.
    pub layers: Vec<Layer>,
}

/// A layer above the null device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A zone write plug.
    Plug,
    /// A linear target over the whole device.
    Linear,
}

/// 256 zones of 256 MiB.
const SIZE: u64 = 64 << 30;
const ZONE: u64 = 256 << 20;

impl BuiltinStack {
    /// Reads `null[,plug][,linear]...`. `null` is the device if it is given; if not, 64 GiB, with 256 zones if `zoned` or if
    /// a plug is wanted.
    pub fn parse(text: &str, null: Option<NullConfig>, zoned: bool) -> Result<Self, String> {
        let known = "a built-in stack is `null`, then `plug` and any number of `linear`, as in null,plug,linear";
        let mut words = text.split(',').map(str::trim);
        if words.next() != Some("null") {
            return Err(format!("unknown stack `{text}`: {known}; a path to a stack file ends in .toml"));
        }
        let layers: Result<Vec<Layer>, String> = words
            .map(|word| match word {
                "plug" => Ok(Layer::Plug),
                "linear" => Ok(Layer::Linear),
                _ => Err(format!("unknown layer `{word}` in `{text}`: {known}")),
            })
            .collect();
        let layers = layers?;
        let plugs = layers.iter().filter(|layer| **layer == Layer::Plug).count();
        if plugs > 1 || (plugs == 1 && layers[0] != Layer::Plug) {
            return Err(format!("`{text}`: a plug belongs right above the null device, once"));
        }
        let null = null.unwrap_or_else(|| default_null(zoned || plugs == 1));
        if plugs == 1 && null.zoned.is_none() {
            return Err("a plug needs zones: add zone-size to --null".into());
        }
        Ok(Self { null, layers })
    }

    /// Builds it; returns the device on top.
    pub fn build(&self) -> Result<(Stack, DeviceId), String> {
        let mut stack = Stack::new();
        let null = NullDevice::new(&self.null).map_err(|error| error.to_string())?;
        let mut top = stack.add(Box::new(null)).map_err(|error| error.to_string())?;
        for layer in &self.layers {
            top = add_layer(&mut stack, top, *layer)?;
        }
        Ok((stack, top))
    }
}

fn add_layer(stack: &mut Stack, below: DeviceId, layer: Layer) -> Result<DeviceId, String> {
    match layer {
        Layer::Plug => Ok(add_plug(stack, below, PlugOptions::default())?.unwrap_or(below)),
        Layer::Linear => {
            let limits = stack.limits(below).clone();
            let linear = Table::linear(below, &limits, 0, limits.capacity)?;
            stack.add(Box::new(linear)).map_err(|error| error.to_string())
        }
    }
}

fn default_null(zoned: bool) -> NullConfig {
    let config = NullConfig::new(SIZE / 512);
    if !zoned {
        return config;
    }
    NullConfig {
        zoned: Some(NullZones { max_append: Some((ZONE / 512) as u32), ..NullZones::new(ZONE / 512) }),
        ..config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_stacked_in_the_order_they_are_written() {
        let builtin = BuiltinStack::parse("null,plug,linear,linear", None, false).unwrap();
        let (stack, top) = builtin.build().unwrap();
        assert_eq!((stack.devices(), top), (4, DeviceId(3)));
        assert_eq!(stack.limits(top).zones(), 256);
        let (stack, top) = BuiltinStack::parse("null", None, false).unwrap().build().unwrap();
        assert_eq!((stack.limits(top).capacity, stack.limits(top).zones()), (SIZE / 512, 0));
    }

    #[test]
    fn stacks_that_make_no_sense_say_what_would() {
        let error = |text| BuiltinStack::parse(text, None, false).unwrap_err().to_string();
        assert!(error("nul").contains("null,plug,linear"));
        assert!(error("null,mirror").contains("unknown layer `mirror`"));
        assert!(error("null,linear,plug").contains("right above"));
        let plain = BuiltinStack::parse("null,plug", Some(NullConfig::new(8)), false).unwrap_err().to_string();
        assert!(plain.contains("zone-size"), "{plain}");
    }
}
