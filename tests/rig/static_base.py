"""Builds EPICS Base to be linked into a program, from the sources that PyPI has as epicscorelibs.

    static_base.py SOURCES INTO

SOURCES is an unpacked source package of epicscorelibs. INTO gets include/, dbd/, libBase.a (libCom, ca,
database) and register.c, which defines register_all(): what the build system of EPICS generates out of
base.dbd as NAME_registerRecordDeviceDriver for each program.

The package's own setup.py makes the generated headers and says what is compiled; it can only make shared
libraries of it.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

# As in setup.py: module, its sources, what is defined when it is compiled, files that setup.py generates.
MODULES = [
    ("Com", "modules/libcom/src", ["EPICS_COMMANDLINE_LIBRARY=EPICS_COMMANDLINE_LIBRARY_EPICS"], ["generated.c"]),
    ("ca", "modules/ca/src", [], []),
    ("dbCore", "modules/database/src/ioc", [], []),
    ("dbRecStd", "modules/database/src/std", [], []),
]
DEFINES = ["_GNU_SOURCE", "_DEFAULT_SOURCE", "linux", "UNIX"]
DEFINES += ["USE_TYPED_RSET", "USE_TYPED_DSET", "USE_TYPED_DRVET"]
# What a fresh EPICS on Debian is built with, but for -O3.
ENTRY = ",\n"
FLAGS = ["-O2", "-g0", "-w"]


def lines_of(sources, module, kind):
    for group in ("all", "Linux"):
        path = os.path.join(sources, "setup.py.d", f"{module}.{group}.{kind}")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                yield from (line.strip() for line in file if line.strip()[:1] not in ("", "#"))


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"static_base.py: {' '.join(command)}: {done.stdout[-500:]}{done.stderr[-2000:]}")


def compile_all(sources, generated, include, into):
    jobs, objects = [], []
    for module, directory, defines, more in MODULES:
        includes = [include, generated]
        includes += [os.path.join(directory, name) for name in lines_of(sources, module, "include")]
        for name in more + [os.path.join(directory, name) for name in lines_of(sources, module, "source")]:
            path = os.path.join(generated, name) if name in more else name
            made = os.path.join(into, name.replace("/", "_") + ".o")
            compiler = "g++" if name.endswith(".cpp") else "gcc"
            command = [compiler, *FLAGS, "-c", path, "-o", made]
            command += [f"-D{define}" for define in DEFINES + defines]
            jobs.append(command + [f"-I{directory}" for directory in includes])
            objects.append(made)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: run(job, cwd=sources), jobs))
    return objects


def expanded(directory, name):
    """A database definition with all that it includes."""
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        text = re.sub(r"#.*", "", file.read())
    return re.sub(r'include\s+"([^"]+)"', lambda found: expanded(directory, found[1]), text)


def registration(text):
    """C that registers what a database definition names."""

    def all_of(keyword):
        return [re.split(r"[\s,]+", args.strip()) for args in re.findall(rf"\b{keyword}\s*\(([^)]*)\)", text)]

    def array(kind, name, values):
        return f"static {kind} {name}[] = {{\n{ENTRY.join(values)}\n}};\n"

    types = [args[0] for args in all_of("recordtype")]
    devices = [args[2] for args in all_of("device")]
    links = [args[1] for args in all_of("link")]
    registrars = [args[0] for args in all_of("registrar")]
    code = "#include <stddef.h>\n#include <registryCommon.h>\n#include <iocsh.h>\n"
    for name in types:
        code += f"extern rset *pvar_rset_{name}RSET;\nextern computeSizeOffset pvar_func_{name}RecordSizeOffset;\n"
    code += "".join(f"extern dset *pvar_dset_{name};\n" for name in devices)
    code += "".join(f"extern jlif *pvar_jlif_{name};\n" for name in links)
    code += "".join(f"extern void (*pvar_func_{name})(void);\n" for name in registrars)
    code += array("const char *const", "type_names", [f'"{name}"' for name in types])
    code += array("const char *const", "device_names", [f'"{name}"' for name in devices])
    code += "long register_all(DBBASE *base)\n{\n"
    places = [f"{{ pvar_rset_{name}RSET, pvar_func_{name}RecordSizeOffset }}" for name in types]
    code += "recordTypeLocation types[] = {\n" + ENTRY.join(places) + "\n};\n"
    code += "const dset *devices[] = {\n" + ENTRY.join(f"pvar_dset_{name}" for name in devices) + "\n};\n"
    code += "jlif *links[] = {\n" + ENTRY.join(f"pvar_jlif_{name}" for name in links) + "\n};\n"
    # they are kept
    code += "static recordTypeLocation kept[sizeof types / sizeof *types];\nsize_t i;\n"
    code += "for (i = 0; i < sizeof types / sizeof *types; i++) kept[i] = types[i];\n"
    code += f"registerRecordTypes(base, {len(types)}, type_names, kept);\n"
    code += f"registerDevices(base, {len(devices)}, device_names, devices);\n"
    code += f"registerJLinks(base, {len(links)}, links);\n"
    code += "".join(f"pvar_func_{name}();\n" for name in registrars)
    return code + "return 0;\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sources")
    parser.add_argument("into")
    args = parser.parse_args()
    sources, into = os.path.abspath(args.sources), os.path.abspath(args.into)
    setup = [sys.executable, "setup.py", "-q", "build_expand", "build_apih", "build_generated"]
    run([*setup, "install_epics_headers"], cwd=sources)
    (package,) = glob.glob(os.path.join(sources, "build/lib*/epicscorelibs"))
    (generated,) = glob.glob(os.path.join(sources, "build/temp*"))
    objects = os.path.join(into, "objects")
    os.makedirs(objects)
    for name in ("include", "dbd"):
        shutil.copytree(os.path.join(package, name), os.path.join(into, name))
    made = compile_all(sources, generated, os.path.join(into, "include"), objects)
    run(["ar", "rcs", os.path.join(into, "libBase.a"), *made])
    shutil.rmtree(objects)
    with open(os.path.join(into, "register.c"), "w", encoding="utf-8") as file:
        file.write(registration(expanded(os.path.join(into, "dbd"), "base.dbd")))


if __name__ == "__main__":
    main()
