package command

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// parseRole returns the proxy's type in the positional arguments, SidecarProxy if there are none.
// It fails for an unknown type.
//
// An unknown flag may or may not take a value, and the parser assumes that the next word is its
// value. That word may be the role: "proxy --newSwitch router" must not become a sidecar. So if no
// positional argument is left, the raw command line is searched.
func parseRole(known *pflag.FlagSet, args, raw []string) (mesh.ProxyType, error) {
	if len(args) == 0 {
		args = roleAfterUnknownFlag(known, raw)
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

// isRole reports whether word is "sidecar" or "router".
func isRole(word string) bool {
	return word == string(mesh.SidecarProxy) || word == string(mesh.RouterProxy)
}

// roleAfterUnknownFlag returns the first word of raw that is a role and directly follows an unknown
// flag --NAME without "=". The result is a list of one, or nil if there is no such word.
func roleAfterUnknownFlag(known *pflag.FlagSet, raw []string) []string {
	for i := 1; i < len(raw); i++ {
		flag, isFlag := strings.CutPrefix(raw[i-1], "--")
		if isFlag && !strings.Contains(flag, "=") && known.Lookup(flag) == nil && isRole(raw[i]) {
			return raw[i : i+1]
		}
	}
	return nil
}
