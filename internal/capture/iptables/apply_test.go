package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// snapshot returns everything that a run may change in a namespace as text, without counters and
// comments.
func (s space) snapshot(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, command := range []string{"iptables-legacy-save", "ip6tables-legacy-save", "nft -s list ruleset", "ip address show lo"} {
		name, args, _ := strings.Cut(command, " ")
		for line := range strings.Lines(s.output(t, "", name, strings.Fields(args)...)) {
			if !strings.HasPrefix(line, "#") {
				// A new IPv6 address is tentative for a moment.
				b.WriteString(strings.ReplaceAll(line, " tentative", ""))
			}
		}
	}
	return b.String()
}

// rules returns the rules, and our parts, of the snapshot. iptables-nft leaves empty tables and
// chains behind.
func (s space) rules(t testing.TB) []string {
	t.Helper()
	var rules []string
	for line := range strings.Lines(s.snapshot(t)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-A") || strings.Contains(line, "counter") || strings.Contains(line, "ISTIO") || strings.Contains(line, "istio") || strings.Contains(line, "::6/128") {
			rules = append(rules, line)
		}
	}
	return rules
}

func TestSecondRunChangesNothing(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, _ := newPod(t)
			requireManner(t, options)
			mustRun(t, pod, options)
			first := pod.snapshot(t)
			if !strings.Contains(strings.ToLower(first), "istio") || !strings.Contains(first, "::6/128") {
				t.Fatalf("the first run left no rules:\n%s", first)
			}
			env := system(t)
			env.Tools = readOnlyTools{env.Tools}
			options.NetworkNamespace = pod.path()
			if err := iptables.Run(t.Context(), options, env); err != nil {
				t.Fatalf("the second run: %v", err)
			}
			if diff := cmp.Diff(first, pod.snapshot(t)); diff != "" {
				t.Errorf("after the second run (-first, +second):\n%s", diff)
			}
			options.ForceApply = true
			mustRun(t, pod, options)
			if diff := cmp.Diff(first, pod.snapshot(t)); diff != "" {
				t.Errorf("after a forced run (-first, +forced):\n%s", diff)
			}
		})
	}
}

// readOnlyTools fails every transaction with rules of ours.
type readOnlyTools struct{ iptables.Tools }

func (r readOnlyTools) Run(ctx context.Context, call iptables.Call) (string, error) {
	if strings.Contains(call.Stdin, "ISTIO") {
		return "", errors.New("nothing was to be written")
	}
	return r.Tools.Run(ctx, call)
}

func TestCleanUpLeavesNothing(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, _ := newPod(t)
			requireManner(t, options)
			options.ExcludeInterfaces, options.RerouteInterfaces = []string{"eth1"}, []string{"vm0"}
			mustRun(t, pod, options)

			// Cleanup works without the options and backend of the earlier run.
			cleanup := iptables.DefaultOptions()
			cleanup.CleanupOnly, cleanup.CNIMode = true, true
			mustRun(t, pod, cleanup)
			if rules := pod.rules(t); len(rules) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(rules, "\n"))
			}
			mustRun(t, pod, cleanup) // repeated cleanup has no effect
		})
	}
}

func TestCleanUpKeepsRulesOfOthers(t *testing.T) {
	pod, _ := newPod(t)
	options := sidecarOptions()
	options.Variant = iptables.NftVariant
	requireManner(t, options)
	others := "*nat\n:OTHER - [0:0]\n-A PREROUTING -p udp -j OTHER\n-A OTHER -j RETURN\n-A OUTPUT -o eth9 -j RETURN\nCOMMIT\n"
	pod.output(t, others, "iptables-nft-restore", "--noflush")
	before := pod.output(t, "", "iptables-nft-save", "-t", "nat")
	mustRun(t, pod, options)
	if during := pod.output(t, "", "iptables-nft-save", "-t", "nat"); !strings.Contains(during, "-A PREROUTING -p udp -j OTHER") {
		t.Errorf("capture removed a rule of others:\n%s", during)
	}
	options.CleanupOnly = true
	mustRun(t, pod, options)
	after := pod.output(t, "", "iptables-nft-save", "-t", "nat")
	// A foreign rule that is adjacent to ours and looks like ours is assumed to be ours; see
	// ownLines.
	want := strings.Replace(before, "-A OUTPUT -o eth9 -j RETURN\n", "", 1)
	if diff := cmp.Diff(withoutComments(want), withoutComments(after)); diff != "" {
		t.Errorf("(-before, +after):\n%s", diff)
	}
}

func withoutComments(save string) []string {
	var lines []string
	for line := range strings.Lines(save) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestReconcile(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", len(manners())))
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			requireRoot(t)
			requireManner(t, options)
			fresh, _ := newPod(t)
			mustRun(t, fresh, options)

			pod, _ := newPod(t)
			old := options
			old.ExcludeInterfaces, old.ExcludeInbound, old.InboundCapturePort = []string{"eth1"}, ports(1, 2).Only, 16006
			mustRun(t, pod, old)
			before := pod.snapshot(t)

			if !options.NativeNftables { // which always replaces its own tables
				if err := run(t, pod, options); !errors.Is(err, iptables.ErrDrift) {
					t.Errorf("without --reconcile: got error %v, want ErrDrift", err)
				}
				if diff := cmp.Diff(before, pod.snapshot(t)); diff != "" {
					t.Errorf("the refused run changed something:\n%s", diff)
				}
			}
			options.Reconcile = true
			mustRun(t, pod, options)
			if diff := cmp.Diff(fresh.rules(t), pod.rules(t)); diff != "" {
				t.Errorf("differs from a run in a fresh namespace (-fresh, +reconciled):\n%s", diff)
			}
		})
	}
}

func TestReconcileDropsAFamily(t *testing.T) {
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, _ := newPod(t)
			requireManner(t, options)
			mustRun(t, pod, options)
			options.DualStack, options.Reconcile = false, true
			mustRun(t, pod, options)
			for _, rule := range pod.rules(t) {
				if strings.Contains(rule, "-s ::6") || strings.Contains(rule, "ip6 ") {
					t.Errorf("left behind: %s", rule)
				}
			}
		})
	}
}

func TestReconcileMovesToAnotherBackend(t *testing.T) {
	pod, _ := newPod(t)
	options := sidecarOptions()
	options.Variant = iptables.NftVariant
	requireManner(t, options)
	mustRun(t, pod, options)
	options.Variant, options.NativeNftables = iptables.AnyVariant, true
	if err := run(t, pod, options); !errors.Is(err, iptables.ErrDrift) {
		t.Errorf("got error %v, want ErrDrift", err)
	}
	options.Reconcile = true
	mustRun(t, pod, options)
	rules := strings.Join(pod.rules(t), "\n")
	if strings.Contains(rules, "ISTIO_") || !strings.Contains(rules, "istio-in-redirect") {
		t.Errorf("got rules:\n%s", rules)
	}
}

func TestNetlinkIsUsedWithoutPrograms(t *testing.T) {
	pod, outside := listeningPod(t)
	env := system(t)
	env.Tools = noTools{}
	options := sidecarOptions()
	options.NetworkNamespace = pod.path()
	if err := iptables.Run(context.Background(), options, env); err != nil {
		t.Fatal(err)
	}
	for _, row := range table {
		checkTruth(t, pod, outside, callers(modes()[0]), row, families["IPv4"])
	}

	options.Variant = iptables.LegacyVariant
	err := iptables.Run(context.Background(), options, env)
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "iptables-legacy-save") {
		t.Errorf("with a forced binary that is not there: got error %v, want it named", err)
	}
}

// noTools is a host without iptables.
type noTools struct{}

func (noTools) Find(name string) (string, error) {
	return "", fmt.Errorf("finding %s: %w", name, exec.ErrNotFound)
}

func (noTools) Run(context.Context, iptables.Call) (string, error) {
	return "", errors.New("there are no programs")
}

// brokenTools fails calls of the IPv6 programs, after those of IPv4 have succeeded.
type brokenTools struct{ iptables.Tools }

func (b brokenTools) Run(ctx context.Context, call iptables.Call) (string, error) {
	if strings.Contains(call.Path, "ip6tables") && strings.Contains(call.Stdin, "ISTIO") {
		call.Stdin = strings.Replace(call.Stdin, "-A ISTIO_OUTPUT", "-A ISTIO_OUTPUT --no-such-option", 1)
	}
	return b.Tools.Run(ctx, call)
}

// TestFailureAppliesNothing makes the last transaction fail.
func TestFailureAppliesNothing(t *testing.T) {
	scorecard.Check(t, 40, scorecard.Size("ways to apply rules", 2))
	for _, variant := range []iptables.Variant{iptables.NftVariant, iptables.LegacyVariant} {
		t.Run(string(variant), func(t *testing.T) {
			pod, _ := newPod(t)
			options := sidecarOptions()
			options.Variant, options.CNIMode, options.NetworkNamespace = variant, true, pod.path()
			requireManner(t, options)
			env := system(t)
			env.Tools = brokenTools{env.Tools}
			err := iptables.Run(context.Background(), options, env)
			if err == nil || !strings.Contains(err.Error(), "no-such-option") {
				t.Errorf("got error %v, want the program's words", err)
			}
			if rules := pod.rules(t); len(rules) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(rules, "\n"))
			}
		})
	}
}

// TestUnmappedOwner tests user namespaces that do not map the proxy's uid.
func TestUnmappedOwner(t *testing.T) {
	pod, _ := newPod(t)
	env := system(t)
	env.UIDMapped = func(id uint32) bool { return id == 0 }
	options := sidecarOptions()
	options.NetworkNamespace, options.ProxyMark = pod.path(), 0
	err := iptables.Run(context.Background(), options, env)
	if err == nil || !strings.Contains(err.Error(), "--proxy-uid 1337") || !strings.Contains(err.Error(), "--proxy-mark") {
		t.Errorf("got error %v, want one that names --proxy-uid and --proxy-mark", err)
	}
	if rules := pod.rules(t); len(rules) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(rules, "\n"))
	}
}

func TestConfigurationIsLoggedFirst(t *testing.T) {
	var log strings.Builder
	env := iptables.Environment{Log: slog.New(slog.NewTextHandler(&log, nil)), Out: io.Discard}
	options := sidecarOptions()
	options.ProxyPort, options.RedirectDNS = 0, true
	if err := iptables.Run(context.Background(), options, env); err == nil {
		t.Error("a port of 0 is no error")
	}
	for _, want := range []string{"options.envoy-port=0", "options.istio-inbound-ports=*", "options.redirect-dns=true"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log.String())
		}
	}
}

func TestBadNamespace(t *testing.T) {
	options := sidecarOptions()
	options.NetworkNamespace = "no-such-namespace"
	err := iptables.Run(context.Background(), options, system(t))
	if err == nil || !strings.Contains(err.Error(), `"no-such-namespace" (--network-namespace)`) {
		t.Errorf("got error %v", err)
	}
}

// TestRulesCount tests that counters show which rule matched a packet, here that of an excluded
// port.
func TestRulesCount(t *testing.T) {
	for manner, options := range manners() {
		t.Run(manner, func(t *testing.T) {
			pod, outside := listeningPod(t)
			requireManner(t, options)
			mustRun(t, pod, options)
			if _, err := outside.call(caller{}, mustAddrPort(podAddr4, 15021)); err != nil {
				t.Fatal(err)
			}
			program, args, want := "iptables-"+string(options.Variant)+"-save", []string{"-c"}, "[1:60] -A ISTIO_INBOUND -p tcp -m tcp --dport 15021 -j RETURN"
			if options.NativeNftables {
				program, args, want = "nft", []string{"list", "table", "ip", "istio-proxy-nat"}, "tcp dport 15021 counter packets 1 "
			}
			text := pod.output(t, "", program, args...)
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		})
	}
}
