//! Where fields are and which numbers things have, for a test to compare with the kernel's header.

use std::mem::offset_of;

use super::descriptors::RawDescriptor;
use super::wire::{
    Attributes, Basic, DATA_START, DeviceInfo, Discard, Features, MOST_DEPTH, Parameters, QUEUE_SHIFT,
    REGISTER_OR_TELL, TAG_SHIFT, Zoned, control_command, queue_command,
};

/// Offsets of fields, in bytes.
pub const FIELDS: &[(&str, usize)] = &[
    ("ublksrv_ctrl_dev_info.nr_hw_queues", offset_of!(DeviceInfo, queues)),
    ("ublksrv_ctrl_dev_info.queue_depth", offset_of!(DeviceInfo, depth)),
    ("ublksrv_ctrl_dev_info.state", offset_of!(DeviceInfo, state)),
    ("ublksrv_ctrl_dev_info.max_io_buf_bytes", offset_of!(DeviceInfo, io_bytes)),
    ("ublksrv_ctrl_dev_info.dev_id", offset_of!(DeviceInfo, number)),
    ("ublksrv_ctrl_dev_info.ublksrv_pid", offset_of!(DeviceInfo, server)),
    ("ublksrv_ctrl_dev_info.flags", offset_of!(DeviceInfo, flags)),
    ("ublksrv_ctrl_dev_info.ublksrv_flags", offset_of!(DeviceInfo, mark)),
    ("ublk_params.types", offset_of!(Parameters, kinds)),
    ("ublk_params.basic", offset_of!(Parameters, basic)),
    ("ublk_params.discard", offset_of!(Parameters, discard)),
    ("ublk_params.devt", offset_of!(Parameters, device_numbers)),
    ("ublk_params.zoned", offset_of!(Parameters, zoned)),
    ("ublk_param_basic.attrs", offset_of!(Basic, attributes)),
    ("ublk_param_basic.logical_bs_shift", offset_of!(Basic, logical_shift)),
    ("ublk_param_basic.physical_bs_shift", offset_of!(Basic, physical_shift)),
    ("ublk_param_basic.io_opt_shift", offset_of!(Basic, optimal_shift)),
    ("ublk_param_basic.io_min_shift", offset_of!(Basic, minimal_shift)),
    ("ublk_param_basic.max_sectors", offset_of!(Basic, most_sectors)),
    ("ublk_param_basic.chunk_sectors", offset_of!(Basic, chunk_sectors)),
    ("ublk_param_basic.dev_sectors", offset_of!(Basic, sectors)),
    ("ublk_param_discard.discard_granularity", offset_of!(Discard, granularity)),
    ("ublk_param_discard.max_discard_sectors", offset_of!(Discard, most_sectors)),
    ("ublk_param_discard.max_write_zeroes_sectors", offset_of!(Discard, most_zeroes_sectors)),
    ("ublk_param_discard.max_discard_segments", offset_of!(Discard, most_segments)),
    ("ublk_param_zoned.max_open_zones", offset_of!(Zoned, most_open)),
    ("ublk_param_zoned.max_active_zones", offset_of!(Zoned, most_active)),
    ("ublk_param_zoned.max_zone_append_sectors", offset_of!(Zoned, most_append_sectors)),
    ("ublksrv_io_desc.op_flags", offset_of!(RawDescriptor, operation)),
    ("ublksrv_io_desc.nr_sectors", offset_of!(RawDescriptor, count)),
    ("ublksrv_io_desc.nr_zones", offset_of!(RawDescriptor, count)),
    ("ublksrv_io_desc.start_sector", offset_of!(RawDescriptor, sector)),
    // As `ControlPayload::bytes` and `QueuePayload::bytes` write them.
    ("ublksrv_ctrl_cmd.dev_id", 0),
    ("ublksrv_ctrl_cmd.queue_id", 4),
    ("ublksrv_ctrl_cmd.len", 6),
    ("ublksrv_ctrl_cmd.addr", 8),
    ("ublksrv_ctrl_cmd.data", 16),
    ("ublksrv_io_cmd.q_id", 0),
    ("ublksrv_io_cmd.tag", 2),
    ("ublksrv_io_cmd.result", 4),
    ("ublksrv_io_cmd.addr", 8),
    ("ublksrv_io_cmd.zone_append_lba", 8),
];

/// Sizes of structures, in bytes.
pub const SIZES: &[(&str, usize)] = &[
    ("ublksrv_ctrl_dev_info", size_of::<DeviceInfo>()),
    ("ublk_param_basic", size_of::<Basic>()),
    ("ublk_param_discard", size_of::<Discard>()),
    ("ublk_param_zoned", size_of::<Zoned>()),
    ("ublksrv_io_desc", size_of::<RawDescriptor>()),
    ("ublksrv_io_cmd", 16),
    ("ublksrv_ctrl_cmd", 32),
];

/// Numbers of commands, features, operations and places.
pub const NUMBERS: &[(&str, u64)] = &[
    ("UBLK_U_CMD_GET_DEV_INFO", control_command::GET_INFO as u64),
    ("UBLK_U_CMD_ADD_DEV", control_command::ADD as u64),
    ("UBLK_U_CMD_DEL_DEV", control_command::DELETE as u64),
    ("UBLK_U_CMD_START_DEV", control_command::START as u64),
    ("UBLK_U_CMD_STOP_DEV", control_command::STOP as u64),
    ("UBLK_U_CMD_SET_PARAMS", control_command::SET_PARAMETERS as u64),
    ("UBLK_U_CMD_GET_PARAMS", control_command::GET_PARAMETERS as u64),
    ("UBLK_U_CMD_START_USER_RECOVERY", control_command::START_RECOVERY as u64),
    ("UBLK_U_CMD_END_USER_RECOVERY", control_command::END_RECOVERY as u64),
    ("UBLK_U_CMD_GET_FEATURES", control_command::GET_FEATURES as u64),
    ("UBLK_U_CMD_UPDATE_SIZE", control_command::UPDATE_SIZE as u64),
    ("UBLK_U_IO_FETCH_REQ", queue_command::FETCH as u64),
    ("UBLK_U_IO_COMMIT_AND_FETCH_REQ", queue_command::COMMIT_AND_FETCH as u64),
    ("UBLK_F_SUPPORT_ZERO_COPY", Features::ZERO_COPY.0),
    ("UBLK_F_AUTO_BUF_REG", Features::AUTO_REGISTER.0),
    ("UBLK_AUTO_BUF_REG_FALLBACK", REGISTER_OR_TELL),
    ("UBLK_F_USER_RECOVERY", Features::RECOVERY.0),
    ("UBLK_F_USER_RECOVERY_REISSUE", Features::REISSUE.0),
    ("UBLK_F_CMD_IOCTL_ENCODE", Features::IOCTL_NUMBERS.0),
    ("UBLK_F_USER_COPY", Features::USER_COPY.0),
    ("UBLK_F_ZONED", Features::ZONED.0),
    ("UBLK_F_UPDATE_SIZE", Features::UPDATE_SIZE.0),
    ("UBLK_ATTR_READ_ONLY", Attributes::READ_ONLY.0 as u64),
    ("UBLK_ATTR_ROTATIONAL", Attributes::ROTATIONAL.0 as u64),
    ("UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA", Attributes::WRITE_CACHE.0 as u64),
    ("UBLK_MAX_QUEUE_DEPTH", MOST_DEPTH as u64),
    ("UBLKSRV_IO_BUF_OFFSET", DATA_START),
    ("UBLK_TAG_OFF", TAG_SHIFT as u64),
    ("UBLK_QID_OFF", QUEUE_SHIFT as u64),
];
