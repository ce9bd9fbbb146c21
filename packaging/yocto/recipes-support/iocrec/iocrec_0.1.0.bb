# nooelint: oelint.var.mandatoryvar.HOMEPAGE - there is none yet
# The static agent and its service. In local.conf, IOCREC_CHECKOUT is a checkout of iocrec, whose dist/ has the agent that
# cross/build or make dist has made for this machine.
SUMMARY = "Flight recorder for EPICS IOCs"
DESCRIPTION = "Watches the EPICS IOCs of a machine from outside and keeps a compact log of who wrote what, and what that \
               set off, within a fixed disk space."
SECTION = "utils"
# of the agent itself; NOTICE names those of what is inside
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE-MIT;md5=01943457258c81f29947c19154fe8ffe \
                    file://LICENSE-APACHE;md5=22a53954e4e0ec258dfce4391e905dac \
                    "

# all of it is in the checkout
SRC_URI = ""
CVE_PRODUCT = "iocrec"

inherit externalsrc systemd update-rc.d

EXTERNALSRC = "${IOCREC_CHECKOUT}"
EXTERNALSRC_BUILD = "${WORKDIR}/build"

COMPATIBLE_HOST = "(x86_64|i.86|aarch64|arm|riscv64).*-linux.*"

# The name that Rust has for the machine.
def iocrec_target(d):
    arch = d.getVar("TARGET_ARCH")
    if arch == "arm":
        features = (d.getVar("TUNE_FEATURES") or "").split()
        is_v7 = "armv7a" in features and "callconvention-hard" in features
        return "armv7-unknown-linux-musleabihf" if is_v7 else "armv5te-unknown-linux-musleabi"
    if arch in ("i486", "i586", "i686"):
        return "i686-unknown-linux-musl"
    names = {"x86_64": "x86_64", "aarch64": "aarch64", "riscv64": "riscv64gc"}
    return "%s-unknown-linux-musl" % names.get(arch, arch)

# Installing it starts nothing, as with the Debian package.
SYSTEMD_SERVICE:${PN} = "iocrec.service"
SYSTEMD_AUTO_ENABLE = "disable"
INITSCRIPT_NAME = "iocrec"
INITSCRIPT_PARAMS = "stop 20 0 1 6 ."

# the second only with the SysV script
CONFFILES:${PN} = "${sysconfdir}/default/iocrec ${sysconfdir}/logrotate.d/iocrec"

# The agent is static, and stripped already.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
# nooelint: oelint.vars.insaneskip - nothing is left to strip
INSANE_SKIP:${PN} += "already-stripped"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    install -D -m 0755 ${S}/dist/iocrec-${PV}-${@iocrec_target(d)} ${D}${bindir}/iocrec
    install -D -m 0644 ${S}/packaging/iocrec.default ${D}${sysconfdir}/default/iocrec
    if ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'true', 'false', d)}; then
        install -D -m 0644 ${S}/packaging/iocrec.service ${D}${systemd_system_unitdir}/iocrec.service
    fi
    if ${@bb.utils.contains('DISTRO_FEATURES', 'sysvinit', 'true', 'false', d)}; then
        install -D -m 0755 ${S}/packaging/iocrec.init ${D}${sysconfdir}/init.d/iocrec
        install -D -m 0644 ${S}/packaging/iocrec.logrotate ${D}${sysconfdir}/logrotate.d/iocrec
    fi
}
