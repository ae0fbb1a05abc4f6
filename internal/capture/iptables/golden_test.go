package iptables_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/internal/capture/iptables/command"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestGolden shows the output of a dry run for the flags, variables and addresses of a case, and
// tests that real kernels and programs have exactly those rules after a real run.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		in := readCase(c)
		rules, err := in.dryRun()
		if err != nil {
			c.Compare(t, "error", []byte(err.Error()))
			return
		}
		nft, err := in.dryRun("--native-nftables")
		if err != nil {
			t.Fatal(err)
		}
		c.Compare(t, "iptables-restore", []byte(rules))
		c.Compare(t, "nft", []byte(nft))
		t.Run("applied", func(t *testing.T) { in.checkApplied(t, rules, nft) })
	})
}

// goldenCase is the input of a case.
type goldenCase struct {
	flags     []string
	variables map[string]string
	addresses []netip.Addr // of the pod
	servers   []netip.Addr // of names
}

func readCase(c *golden.Case) goldenCase {
	in := goldenCase{variables: map[string]string{}, addresses: []netip.Addr{netip.MustParseAddr(podAddr4)}}
	for line := range strings.Lines(string(c.Input("flags"))) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		in.flags = append(in.flags, name)
		if found {
			in.flags = append(in.flags, strings.Trim(value, "'"))
		}
	}
	for line := range strings.Lines(string(c.Input("variables"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		in.variables[name] = value
	}
	if text := c.Input("addresses"); text != nil {
		in.addresses = nil
		for _, a := range strings.Fields(string(text)) {
			in.addresses = append(in.addresses, netip.MustParseAddr(a))
		}
	}
	for _, a := range strings.Fields(string(c.Input("nameservers"))) {
		in.servers = append(in.servers, netip.MustParseAddr(a))
	}
	return in
}

// run executes the command in an environment whose pod has the addresses of the case.
func (in goldenCase) run(env iptables.Environment, more ...string) error {
	env.Addresses = func() ([]netip.Addr, error) { return in.addresses, nil }
	env.Nameservers = func() ([]netip.Addr, error) { return in.servers, nil }
	lookup := func(name string) (string, bool) {
		value, ok := in.variables[name]
		return value, ok
	}
	cmd := command.New(lookup, noUsers(), func() (iptables.Environment, error) { return env, nil })
	cmd.SetArgs(append(in.flags, more...))
	return cmd.ExecuteContext(context.Background())
}

func (in goldenCase) dryRun(more ...string) (string, error) {
	var out bytes.Buffer
	env := iptables.Environment{Log: slog.New(slog.DiscardHandler), Out: &out}
	err := in.run(env, append(more, "--dry-run")...)
	return out.String(), err
}

func noUsers() command.Users {
	none := func(string) (uint32, error) { return 0, errors.New("none") }
	return command.Users{UID: none, GID: none}
}

// checkApplied applies the case in each manner.
func (in goldenCase) checkApplied(t *testing.T, rules, nft string) {
	requireRoot(t)
	env := iptables.System(slog.New(slog.NewTextHandler(t.Output(), nil)), io.Discard)
	for _, variant := range []string{"nft", "legacy"} {
		s := newSpace(t)
		if err := in.run(env, "--network-namespace", s.path(), "--cni-mode", "--force-iptables-binary", variant); err != nil {
			t.Fatal(err)
		}
		saved := s.output(t, "", "iptables-"+variant+"-save") + "# 6\n" + s.output(t, "", "ip6tables-"+variant+"-save")
		if diff := cmp.Diff(rulesOf(rules), rulesOf(saved)); diff != "" {
			t.Errorf("iptables-%s-save differs from the dry run (-dry run, +saved):\n%s", variant, diff)
		}
	}
	byNetlink, byText := newSpace(t), newSpace(t)
	if err := in.run(env, "--network-namespace", byNetlink.path(), "--native-nftables"); err != nil {
		t.Fatal(err)
	}
	byText.output(t, nft, "nft", "-f", "-")
	if diff := cmp.Diff(byText.output(t, "", "nft", "list", "ruleset"), byNetlink.output(t, "", "nft", "list", "ruleset")); diff != "" {
		t.Errorf("nft lists rules sent over netlink differently from the dry run (-dry run, +netlink):\n%s", diff)
	}
}

// rulesOf returns the rules of iptables-save or -restore text by family, table and chain, in the
// order in which packets meet them.
func rulesOf(text string) map[string][]string {
	insert := regexp.MustCompile(`^-I (\S+) \d+ `)
	rules := map[string][]string{}
	family, table := "IPv4", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "# ip6tables") || line == "# 6" {
			family = "IPv6"
		}
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		// A chain's insertions are in ascending order, before the appended rules.
		line = insert.ReplaceAllString(line, "-A $1 ")
		if rest, ok := strings.CutPrefix(line, "-A "); ok {
			chain, rule, _ := strings.Cut(rest, " ")
			key := family + " " + table + " " + chain
			rules[key] = append(rules[key], rule)
		}
	}
	return rules
}

// TestCommands runs the commands of a dry run in a shell, and compares the resulting rules with
// those for iptables-restore.
func TestCommands(t *testing.T) {
	requireRoot(t)
	program(t, "iptables-nft")
	for _, cases := range []string{"testdata/tproxy*.txtar", "testdata/redirect_dns*.txtar", "testdata/interfaces*.txtar"} {
		golden.Run(t, cases, checkCommands)
	}
}

func checkCommands(t *testing.T, c *golden.Case) {
	for _, section := range []string{"error", "iptables-restore", "nft"} { // checked by TestGolden
		_ = c.Input(section)
	}
	in := readCase(c)
	rules, err := in.dryRun()
	if err != nil {
		return
	}
	commands, err := in.dryRun("--restore-format=false")
	if err != nil {
		t.Fatal(err)
	}
	s := newSpace(t)
	s.output(t, strings.NewReplacer("iptables -t", "iptables-nft -t", "ip6tables -t", "ip6tables-nft -t").Replace(commands), "sh", "-e")
	saved := s.output(t, "", "iptables-nft-save") + "# 6\n" + s.output(t, "", "ip6tables-nft-save")
	if diff := cmp.Diff(rulesOf(rules), rulesOf(saved)); diff != "" {
		t.Errorf("after the commands iptables-nft-save differs from the dry run (-dry run, +saved):\n%s", diff)
	}
}
