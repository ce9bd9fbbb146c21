################################################################################
#
# iocrec
#
################################################################################

IOCREC_VERSION = 0.1.0
IOCREC_SITE = $(call qstrip,$(BR2_PACKAGE_IOCREC_CHECKOUT))
IOCREC_SITE_METHOD = local
IOCREC_LICENSE = MIT or Apache-2.0, BSD-2-Clause or GPL-2.0 (BPF programs), LGPL-2.1 or BSD-2-Clause (libbpf)
IOCREC_LICENSE_FILES = LICENSE-MIT LICENSE-APACHE NOTICE
IOCREC_OVERRIDE_SRCDIR_RSYNC_EXCLUSIONS = \
	--exclude=/target --exclude=/.venv --exclude=/.venv-check --exclude=/demo-out

ifeq ($(BR2_x86_64),y)
IOCREC_TARGET = x86_64-unknown-linux-musl
else ifeq ($(BR2_i386),y)
IOCREC_TARGET = i686-unknown-linux-musl
else ifeq ($(BR2_aarch64),y)
IOCREC_TARGET = aarch64-unknown-linux-musl
else ifeq ($(BR2_RISCV_64),y)
IOCREC_TARGET = riscv64gc-unknown-linux-musl
else ifeq ($(BR2_ARM_CPU_ARMV7A)$(BR2_ARM_EABIHF),yy)
IOCREC_TARGET = armv7-unknown-linux-musleabihf
else
# ARMv5 code runs on every ARM that Linux does
IOCREC_TARGET = armv5te-unknown-linux-musleabi
endif

define IOCREC_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/dist/iocrec-$(IOCREC_VERSION)-$(IOCREC_TARGET) \
		$(TARGET_DIR)/usr/bin/iocrec
	$(INSTALL) -D -m 0644 $(@D)/packaging/iocrec.default \
		$(TARGET_DIR)/etc/default/iocrec
endef

define IOCREC_INSTALL_INIT_SYSTEMD
	$(INSTALL) -D -m 0644 $(@D)/packaging/iocrec.service \
		$(TARGET_DIR)/usr/lib/systemd/system/iocrec.service
endef

# before the IOCs, which often start in S99
define IOCREC_INSTALL_INIT_SYSV
	$(INSTALL) -D -m 0755 $(@D)/packaging/iocrec.init \
		$(TARGET_DIR)/etc/init.d/S60iocrec
endef

$(eval $(generic-package))
