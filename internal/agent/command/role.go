package command

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// role is the proxy's type by the positional arguments, a sidecar without any.
//
// Of an unknown flag nobody knows whether it takes a value, and the parser lets it have the word after it. That word may be
// the role: "proxy --newSwitch router" must not become a sidecar. So where no positional argument is left, the raw
// command line is asked.
func role(known *pflag.FlagSet, args, raw []string) (mesh.ProxyType, error) {
	if len(args) == 0 {
		args = swallowed(known, raw)
	}
	if len(args) == 0 {
		return mesh.SidecarProxy, nil
	}
	t := mesh.ProxyType(args[0])
	if !isRole(args[0]) {
		return "", fmt.Errorf("proxy %q: want sidecar or router", args[0])
	}
	return t, nil
}

func isRole(word string) bool {
	return word == string(mesh.SidecarProxy) || word == string(mesh.RouterProxy)
}

// swallowed finds a role that stands right after an unknown flag.
func swallowed(known *pflag.FlagSet, raw []string) []string {
	for i := 1; i < len(raw); i++ {
		flag, isFlag := strings.CutPrefix(raw[i-1], "--")
		if isFlag && !strings.Contains(flag, "=") && known.Lookup(flag) == nil && isRole(raw[i]) {
			return raw[i : i+1]
		}
	}
	return nil
}
