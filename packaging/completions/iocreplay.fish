# Completion of iocreplay for fish. Made by `make pages`: edit the program's options.

complete -c iocreplay -f
complete -c iocreplay -l help -d 'display usage information'
complete -c iocreplay -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c iocreplay -n __fish_use_subcommand -a info -d 'Show what the logs hold'
complete -c iocreplay -n __fish_use_subcommand -a verify -d 'Read every byte of the logs and list what is damaged or missing'
complete -c iocreplay -n __fish_use_subcommand -a puts -d 'Show the put log'
complete -c iocreplay -n __fish_use_subcommand -a traces -d 'Show process chains'
complete -c iocreplay -n __fish_use_subcommand -a why -d 'Show the cause of the last change of a PV'
complete -c iocreplay -n __fish_use_subcommand -a iocs -d 'List the IOCs that were recorded'
complete -c iocreplay -n __fish_use_subcommand -a records -d 'List the records of the IOCs that were recorded'

complete -c iocreplay -n '__fish_seen_subcommand_from info' -l json -d 'write JSON instead of text'
complete -c iocreplay -n '__fish_seen_subcommand_from info' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from info' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from info' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from info' -F

complete -c iocreplay -n '__fish_seen_subcommand_from verify' -l json -d 'write JSON instead of text'
complete -c iocreplay -n '__fish_seen_subcommand_from verify' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from verify' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from verify' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from verify' -F

complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l format -x -a 'text jsonl csv caputlog caputlog-json caput' -d 'output format'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l level -x -d 'caputlog'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l burst -x -d 'caputlog'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l prefix -x -d 'caputlog'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l metadata -x -d 'caputlog-json'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l timing -d 'caput'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l all -d 'also show puts of database links and CA links'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l since -x -d 'only what began at this time or later'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l until -x -d 'only what began before this time'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l pv -x -d 'only PVs and records whose names match, with * ? [a-z]'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l exclude -x -d 'leave out PVs and records whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l user -x -d 'only puts of users whose'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l client -x -d 'only puts of clients that match'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l ioc -x -d 'only IOCs whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l host -x -d 'only recorded hosts whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from puts' -F

complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l format -x -a 'text otlp' -d 'output format'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l since -x -d 'only what began at this time or later'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l until -x -d 'only what began before this time'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l pv -x -d 'only PVs and records whose names match, with * ? [a-z]'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l exclude -x -d 'leave out PVs and records whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l user -x -d 'only puts of users whose'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l client -x -d 'only puts of clients that match'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l ioc -x -d 'only IOCs whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l host -x -d 'only recorded hosts whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from traces' -F

complete -c iocreplay -n '__fish_seen_subcommand_from why' -l at -x -d 'the last change before this time'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l since -x -d 'only what began at this time or later'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l ioc -x -d 'only IOCs whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l host -x -d 'only recorded hosts whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l json -d 'write JSON instead of text'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from why' -F

complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -l json -d 'write JSON instead of text'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -l ioc -x -d 'only IOCs whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -l host -x -d 'only recorded hosts whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -l utc -d 'read and write times in UTC instead of this machine\'s zone'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from iocs' -F

complete -c iocreplay -n '__fish_seen_subcommand_from records' -l json -d 'write JSON instead of text'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -l pv -x -d 'only PVs and records whose names match, with * ? [a-z]'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -l exclude -x -d 'leave out PVs and records whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -l ioc -x -d 'only IOCs whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -l host -x -d 'only recorded hosts whose names match'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -l no-limit -d 'read on where a segment holds far more events than any recorder writes into so few bytes'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -s o -l output -r -F -d 'write to this file instead of standard output'
complete -c iocreplay -n '__fish_seen_subcommand_from records' -F
