package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// istioFlags are the flags of Istio's program: name, shorthand, default.
var istioFlags = [][3]string{
	{"envoy-port", "p", "15001"},
	{"inbound-capture-port", "z", "15006"},
	{"inbound-tunnel-port", "e", "15008"},
	{"proxy-uid", "u", ""},
	{"proxy-gid", "g", ""},
	{"istio-inbound-interception-mode", "m", "REDIRECT"}, // Istio's empty default is equivalent
	{"istio-inbound-tproxy-mark", "t", "1337"},
	{"istio-inbound-tproxy-route-table", "r", "133"},
	{"istio-inbound-ports", "b", ""},
	{"istio-local-exclude-ports", "d", ""},
	{"istio-exclude-interfaces", "c", ""},
	{"istio-service-cidr", "i", ""},
	{"istio-service-exclude-cidr", "x", ""},
	{"istio-outbound-ports", "q", ""},
	{"istio-local-outbound-ports-exclude", "o", ""},
	{"kube-virt-interfaces", "k", ""},
	{"redirect-dns", "", "false"},
	{"capture-all-dns", "", "false"},
	{"drop-invalid", "", "false"},
	{"dual-stack", "", "false"},
	{"dry-run", "n", "false"},
	{"skip-rule-apply", "", "false"},
	{"run-validation", "", "false"},
	{"iptables-probe-port", "", "15002"},
	{"probe-timeout", "", "5s"},
	{"network-namespace", "", ""},
	{"cni-mode", "", "false"},
	{"reconcile", "", "false"},
	{"cleanup-only", "", "false"},
	{"force-apply", "", "false"},
	{"native-nftables", "", "false"},
	{"force-iptables-binary", "", ""},
}

func TestFlagsAreIstios(t *testing.T) {
	o := iptables.DefaultOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	bindFlags(fs, &o, Users{})
	got := map[[3]string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { got[[3]string{f.Name, f.Shorthand, f.DefValue}] = true })
	// One is an extension, two are those of earlier releases of Istio.
	want := map[[3]string]bool{{"proxy-mark", "", "0"}: true, {"restore-format", "f", "true"}: true, {"iptables-version", "", ""}: true}
	for _, f := range istioFlags {
		want[f] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// fakeUsers has two users, like a host with Istio's image, and one group.
func fakeUsers() Users {
	find := func(known map[string]uint32) func(string) (uint32, error) {
		return func(name string) (uint32, error) {
			if id, ok := known[name]; ok {
				return id, nil
			}
			return 0, fmt.Errorf("unknown name %q", name)
		}
	}
	return Users{UID: find(map[string]uint32{"istio-proxy": 1500, "envoy": 1600}), GID: find(map[string]uint32{"mesh": 1700})}
}

// execute runs the command as a dry run, and returns its output and log.
func execute(users Users, variables map[string]string, args ...string) (out, log string, err error) {
	var printed, logged bytes.Buffer
	env := iptables.Environment{
		Log:       slog.New(slog.NewTextHandler(&logged, nil)),
		Out:       &printed,
		Addresses: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil },
	}
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	cmd := New(lookup, users, func() (iptables.Environment, error) { return env, nil })
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append(args, "--dry-run"))
	err = cmd.ExecuteContext(context.Background())
	return printed.String(), logged.String(), err
}

func TestOwner(t *testing.T) {
	none := Users{UID: func(string) (uint32, error) { return 0, errors.New("none") }, GID: func(string) (uint32, error) { return 0, errors.New("none") }}
	for _, c := range []struct {
		name      string
		users     Users
		variables map[string]string
		args      []string
		want      []string
	}{
		{"no option, no such user", none, nil, nil, []string{"--uid-owner 1337", "--gid-owner 1337"}},
		{"no option", fakeUsers(), nil, nil, []string{"--uid-owner 1500", "--gid-owner 1500"}},
		{"another user", fakeUsers(), map[string]string{"ENVOY_USER": "envoy"}, nil, []string{"--uid-owner 1600", "--gid-owner 1600"}},
		{"uid only", fakeUsers(), nil, []string{"-u", "9"}, []string{"--uid-owner 9", "--gid-owner 9"}},
		{"both", fakeUsers(), nil, []string{"-u", "9", "-g", "10"}, []string{"--uid-owner 9", "--gid-owner 10"}},
		{"names", fakeUsers(), nil, []string{"-u", "envoy", "-g", "mesh"}, []string{"--uid-owner 1600", "--gid-owner 1700"}},
		{"group by variable", fakeUsers(), map[string]string{"ISTIO_OUTBOUND_OWNER_GROUPS": "mesh,5"}, nil, []string{"! --gid-owner 1700 -m owner ! --gid-owner 5 -j RETURN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _, err := execute(c.users, c.variables, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("the rules have no %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestErrorsNameTheirCause(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		args      []string
		want      string
	}{
		{nil, []string{"-p", "0"}, `"-p, --envoy-port" flag: "0" is not a port`},
		{nil, []string{"-m", "redirect"}, `"-m, --istio-inbound-interception-mode" flag: "redirect" is not REDIRECT or TPROXY`},
		{nil, []string{"-i", "10.0.0.0/8,here"}, `"-i, --istio-service-cidr" flag: "here" is not a CIDR`},
		{nil, []string{"-b", "80,*"}, `"-b, --istio-inbound-ports" flag: "*" is not a port`},
		{nil, []string{"-c", "eth0 -j ACCEPT"}, "--istio-exclude-interfaces (-c)"},
		{nil, []string{"-k", "interface-with-a-long-name"}, "--kube-virt-interfaces (-k)"},
		{nil, []string{"-u", "stranger"}, `"-u, --proxy-uid" flag: "stranger" is not an ID`},
		{nil, []string{"--proxy-mark", "-1"}, `"--proxy-mark" flag: "-1" is not a number`},
		{nil, []string{"--force-iptables-binary", "new"}, `"--force-iptables-binary" flag: "new" is not legacy or nft`},
		{nil, []string{"--native-nftables", "--force-iptables-binary", "nft"}, "--native-nftables: conflicts with --force-iptables-binary"},
		{nil, []string{"--cni-mode"}, "--cni-mode: requires --network-namespace"},
		{nil, []string{"--run-validation", "--probe-timeout", "-1s"}, "--probe-timeout -1s"},
		{nil, []string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		{nil, []string{"word"}, `unknown command "word"`},
		{nil, []string{"--restore-format=perhaps"}, `"-f, --restore-format" flag: "perhaps" is not true or false`},
		{nil, []string{"--iptables-version", "new"}, `"--iptables-version" flag: "new" is not a version`},
		{nil, []string{"-m", "TPROXY", "-t", "0"}, "--istio-inbound-tproxy-mark (-t) 0"},
		{nil, []string{"-m", "TPROXY", "-r", "254"}, "--istio-inbound-tproxy-route-table (-r) 254"},
		{map[string]string{"ENVOY_USER": "stranger"}, nil, "environment variable ENVOY_USER"},
		{map[string]string{"ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR": "10.0.0.0/8"}, nil, "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"},
		{map[string]string{"ISTIO_OUTBOUND_OWNER_GROUPS": strings.Repeat("1,", 65)}, nil, "ISTIO_OUTBOUND_OWNER_GROUPS: 65 groups"},
	} {
		out, _, err := execute(fakeUsers(), c.variables, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: got error %v, want one with %q", c.variables, c.args, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%v %v: the error has several lines: %v", c.variables, c.args, err)
		}
		if out != "" {
			t.Errorf("%v %v: printed rules:\n%s", c.variables, c.args, out)
		}
		if ExitCode(err) != 1 {
			t.Errorf("%v %v: exit code %d, want 1", c.variables, c.args, ExitCode(err))
		}
	}
}

// TestInvalidBooleans tests that an invalid boolean in a variable is ignored with a warning: the
// default applies, or the other variable of the flag.
func TestInvalidBooleans(t *testing.T) {
	const invalid = "--ctstate INVALID"
	for _, c := range []struct {
		variables map[string]string
		warning   string
		drops     bool
	}{
		{map[string]string{"DROP_INVALID": "yes"}, `environment variable DROP_INVALID: \"yes\" is not true or false, and is ignored`, false},
		{map[string]string{"DROP_INVALID": "true", "INVALID_DROP": "yes"}, "environment variable INVALID_DROP", true},
		{map[string]string{"ISTIO_META_DNS_CAPTURE": "on"}, "environment variable ISTIO_META_DNS_CAPTURE", false},
		{map[string]string{"SKIP_RULE_APPLY": "on", "DROP_INVALID": "1"}, "environment variable SKIP_RULE_APPLY", true},
	} {
		out, log, err := execute(fakeUsers(), c.variables)
		if err != nil || !strings.Contains(log, "level=WARN msg=\""+c.warning) || strings.Contains(out, invalid) != c.drops || out == "" {
			t.Errorf("%v: error %v, log\n%s\nrules\n%s", c.variables, err, log, out)
		}
	}
	if _, _, err := execute(fakeUsers(), nil, "--drop-invalid=yes"); err == nil {
		t.Error("an invalid boolean on the command line is no error")
	}
}

func TestExitCode(t *testing.T) {
	if got := ExitCode(nil); got != 0 {
		t.Errorf("without error: %d, want 0", got)
	}
	if got := ExitCode(fmt.Errorf("validating: %w", iptables.ErrValidation)); got != 126 {
		t.Errorf("failed validation: %d, want 126", got)
	}
}

// TestParentFlagsHaveNoVariables tests that variables do not set the flags of a parent command such
// as pilot-agent.
func TestParentFlagsHaveNoVariables(t *testing.T) {
	env := iptables.Environment{
		Log: slog.New(slog.DiscardHandler), Out: io.Discard,
		Addresses: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil },
	}
	lookup := func(name string) (string, bool) { return "true", name == "PARENTS" }
	cmd := New(lookup, fakeUsers(), func() (iptables.Environment, error) { return env, nil })
	var parents bool
	cmd.PersistentFlags().BoolVar(&parents, "parents", false, "")
	cmd.SetArgs([]string{"-n"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if parents {
		t.Error("a variable set a flag of another command")
	}
}

// TestClean tests the command only; package iptables tests the removal.
func TestClean(t *testing.T) {
	var logged bytes.Buffer
	env := iptables.Environment{Log: slog.New(slog.NewTextHandler(&logged, nil)), Out: io.Discard}
	cmd := NewClean(func(string) (string, bool) { return "", false }, fakeUsers(), func() (iptables.Environment, error) { return env, nil })
	cmd.SetArgs([]string{"--dry-run"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"options.cleanup-only=true", "not removing rules"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, logged.String())
		}
	}
}

// TestOptions tests callers without a command line.
func TestOptions(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"INVALID_DROP": "true", "ISTIO_DUAL_STACK": "yes"}[name]
		return value, ok
	}
	o, warnings, err := Options([]string{"-b", "80", "--iptables-version", "v1.8.9 (nf_tables)"}, lookup, fakeUsers())
	if err != nil || !o.DropInvalid || len(o.InboundPorts.Only) != 1 || o.Variant != iptables.NftVariant || o.ProxyUIDs[0] != 1500 {
		t.Errorf("got %+v, error %v", o, err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "ISTIO_DUAL_STACK") {
		t.Errorf("warnings %q", warnings)
	}
	for _, args := range [][]string{{"-b", "many"}, {"word"}, {"--no-such-flag"}} {
		if _, _, err := Options(args, lookup, fakeUsers()); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
