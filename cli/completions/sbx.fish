# SPDX-License-Identifier: Apache-2.0
set -l commands up run ls exec cp logs url port-forward kill snapshot token tunnels
set -l none "not __fish_seen_subcommand_from $commands"
complete -c sbx -f
complete -c sbx -n $none -l url -x -d 'the gateway'
complete -c sbx -n $none -l token-file -r -F -d 'file with the token'
complete -c sbx -n $none -l ca -r -F -d 'certificates to trust'
complete -c sbx -n $none -l namespace -x -d 'whose jobs'
complete -c sbx -n $none -a up -d 'start a sandbox'
complete -c sbx -n $none -a run -d 'run a job'
complete -c sbx -n $none -a ls -d 'list what runs'
complete -c sbx -n $none -a exec -d 'run a command in a sandbox'
complete -c sbx -n $none -a cp -d 'copy files out of and into a sandbox'
complete -c sbx -n $none -a logs -d 'print what a job printed'
complete -c sbx -n $none -a url -d 'print the URL of a sandbox'
complete -c sbx -n $none -a port-forward -d 'HTTP servers of a sandbox on loopback'
complete -c sbx -n $none -a kill -d 'end sandboxes and jobs'
complete -c sbx -n $none -a snapshot -d 'keep what a job wrote'
complete -c sbx -n $none -a token -d 'print the token of a sandbox'
complete -c sbx -n $none -a tunnels -d 'list the tunnels of the gateway'
complete -c sbx -n '__fish_seen_subcommand_from exec logs url port-forward kill snapshot token' \
	-a '(sbx ls -q 2>/dev/null)'
complete -c sbx -n '__fish_seen_subcommand_from up run' -l name -x
complete -c sbx -n '__fish_seen_subcommand_from up run' -l image -x
complete -c sbx -n '__fish_seen_subcommand_from up run' -l flavor -x
complete -c sbx -n '__fish_seen_subcommand_from up run exec' -l env -x
complete -c sbx -n '__fish_seen_subcommand_from up run' -l secret -x
complete -c sbx -n '__fish_seen_subcommand_from up run exec' -l timeout -x
complete -c sbx -n '__fish_seen_subcommand_from up run' -l restore -x
complete -c sbx -n '__fish_seen_subcommand_from snapshot' -a 'create ls rm get'
complete -c sbx -n '__fish_seen_subcommand_from snapshot' -s k -l kill
complete -c sbx -n '__fish_seen_subcommand_from snapshot' -s v -l volume -x
complete -c sbx -n '__fish_seen_subcommand_from snapshot' -l no-wait
complete -c sbx -n '__fish_seen_subcommand_from up' -l port -x
complete -c sbx -n '__fish_seen_subcommand_from up' -l idle -x
complete -c sbx -n '__fish_seen_subcommand_from up' -l host
complete -c sbx -n '__fish_seen_subcommand_from run' -s d -l detach
complete -c sbx -n '__fish_seen_subcommand_from ls' -s a -l all
complete -c sbx -n '__fish_seen_subcommand_from exec' -s i -l stdin
complete -c sbx -n '__fish_seen_subcommand_from exec' -s t -l tty
complete -c sbx -n '__fish_seen_subcommand_from exec' -s s -l shell
complete -c sbx -n '__fish_seen_subcommand_from exec' -l cwd -x
complete -c sbx -n '__fish_seen_subcommand_from cp' -F -s r -l recursive
complete -c sbx -n '__fish_seen_subcommand_from logs' -s f -l follow
complete -c sbx -n '__fish_seen_subcommand_from logs' -s n -l tail -x
