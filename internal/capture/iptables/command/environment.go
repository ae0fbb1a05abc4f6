package command

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// withoutVariable is the only flag that Istio does not bind to an environment variable.
const withoutVariable = "envoy-port"

// defaultUser is the proxy's user if ENVOY_USER is not set, provided that the user exists.
const defaultUser = "istio-proxy"

// variableNames returns the environment variables that set a flag. The first is the flag's name in
// capitals with underscores; redirect-dns, drop-invalid and dual-stack have a second one, which
// other components share.
func variableNames(flag string) []string {
	names := []string{strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
	switch flag {
	case "redirect-dns":
		names = append(names, "ISTIO_META_DNS_CAPTURE")
	case "drop-invalid":
		names = append(names, "INVALID_DROP")
	case "dual-stack":
		names = append(names, "ISTIO_DUAL_STACK")
	}
	return names
}

// fillFromEnvironment sets the flags that are not on the command line from their variables. If
// several variables are set, the last one wins; empty ones are ignored, and so are invalid
// booleans, with a warning. It returns the first error about another value. The flag envoy-port has
// no variable, as in Istio.
func fillFromEnvironment(fs *pflag.FlagSet, lookup func(string) (string, bool)) (warnings []string, err error) {
	fs.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == withoutVariable {
			return
		}
		for _, name := range variableNames(f.Name) {
			text, ok := lookup(name)
			if !ok || text == "" {
				continue
			}
			if _, invalid := strconv.ParseBool(text); invalid != nil && f.Value.Type() == "bool" {
				problem := variableError(name, valueError(text, "true or false"))
				warnings = append(warnings, problem.Error()+", and is ignored")
				continue
			}
			if failed := fs.Set(f.Name, text); failed != nil {
				err = variableError(name, failed)
				return
			}
		}
	})
	return warnings, err
}

// fillEnvironmentOnly sets OwnerGroups, ExcludeOwnerGroups and LoopbackCIDR, which have no flag,
// from their variables. Unset and empty variables change nothing. It returns the first error, with
// the variable's name.
func fillEnvironmentOnly(o *iptables.Options, users Users, lookup func(string) (string, bool)) error {
	gid := func(s string) (uint32, error) { return parseID(s, users.GID) }
	for _, v := range []struct {
		name string
		set  func(string) error
	}{
		{"ISTIO_OUTBOUND_OWNER_GROUPS", func(s string) (err error) {
			o.OwnerGroups, err = parseSelection(s, gid)
			return err
		}},
		{"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", func(s string) (err error) {
			o.ExcludeOwnerGroups, err = parseList(s, gid)
			return err
		}},
		{"ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", func(s string) (err error) {
			o.LoopbackCIDR, err = netip.ParsePrefix(s)
			return err
		}},
	} {
		if text, ok := lookup(v.name); ok && text != "" {
			if err := v.set(text); err != nil {
				return variableError(v.name, err)
			}
		}
	}
	return nil
}

// fillOwner sets o.ProxyUIDs to the uid of the user ENVOY_USER, or else of defaultUser, unless a
// flag or variable has set uids. If defaultUser does not exist, the uid is
// iptables.DefaultOptions'; a missing ENVOY_USER is an error. Unless a flag or variable has set
// gids, it sets o.ProxyGIDs to the same numbers.
func fillOwner(
	fs *pflag.FlagSet, o *iptables.Options, users Users, lookup func(string) (string, bool),
) error {
	if !fs.Changed("proxy-uid") || len(o.ProxyUIDs) == 0 {
		o.ProxyUIDs = iptables.DefaultOptions().ProxyUIDs
		name, asked := lookup("ENVOY_USER")
		asked = asked && name != ""
		if !asked {
			name = defaultUser
		}
		uid, err := users.UID(name)
		if err == nil {
			o.ProxyUIDs = []uint32{uid}
		} else if asked {
			return variableError("ENVOY_USER", err)
		}
	}
	if !fs.Changed("proxy-gid") || len(o.ProxyGIDs) == 0 {
		o.ProxyGIDs = o.ProxyUIDs
	}
	return nil
}
