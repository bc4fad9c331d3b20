# SPDX-License-Identifier: Apache-2.0
# bash completion for sbx

_sbx() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local i cmd='' words=''
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--url | --token-file | --ca | --namespace) ((i++)) ;;
		-*) ;;
		*)
			cmd=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $prev in
	--token-file | --ca)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	case $cmd in
	'') words='--url --token-file --ca --namespace --help --version
		up run ls exec cp logs url port-forward kill snapshot token tunnels' ;;
	up) words='--name --image --flavor --env --secret --label --port
		--timeout --idle --host --no-wait --restore' ;;
	run) words='--detach --name --image --flavor --env --secret --label
		--timeout --restore' ;;
	snapshot) words='create ls rm get --kill --volume --no-wait
		'"$(sbx ls -q 2>/dev/null; sbx snapshot ls -q 2>/dev/null)" ;;
	ls) words='--all --label --quiet' ;;
	exec) words='--env --cwd --timeout --stdin --tty --shell' ;;
	cp) words='--recursive' ;;
	logs) words='--follow --tail' ;;
	esac
	case $cmd:$cur in
	cp:*)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		words+=" $(sbx ls -q 2>/dev/null | sed 's/$/:/')"
		compopt -o nospace
		;;
	exec:-* | logs:-*) ;;
	exec:* | logs:* | url:* | port-forward:* | kill:* | token:*)
		words+=" $(sbx ls -q 2>/dev/null)"
		;;
	esac
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _sbx sbx
