package hostileclients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// attackFunc attacks one port once. The attacker repeats it for the time of the attack, in one or
// several workers.
type attackFunc func(ctx context.Context, a *attacker, r *rand.Rand, d door) error

// row is an attack of the table. Bounds that it does not set have the defaults of measure_test.go.
type row struct {
	name string
	// about names the target of the attack in the table of results.
	about string
	do    attackFunc
	doors func(door) bool
	// share is the weight of this attack in the time of all attacks; 0: 1.
	share int
	// workers is the number of concurrent attackers for each port; 0: one.
	workers int
	// pause is the time that each worker waits between two attacks; 0: 5 ms. Floods have a longer
	// one, because otherwise they only exhaust the machine's two CPUs, which the attackers share
	// with their victims.
	pause time.Duration
	// from selects the source addresses of the connections.
	from sources
	// identities are the accounts of the honest namespace whose certificates the workers use in
	// turn. If empty, the workers are anonymous.
	identities []string
	// domain is the DNS domain in the attackers' node ids; "": that of the honest proxies. Another
	// one puts them into a class of their own.
	domain string
	// memory is the maximum growth of the victim in MiB, log the maximum growth of its log in KiB,
	// in addition to logRate KiB a second. A refused request is one line of the log, so attacks of
	// thousands of requests a second have a higher rate.
	memory, log, logRate int64
	// reached returns an error if the attack did not reach its target; nil: it must be made at
	// least once.
	reached func(o outcome) error
	// check returns an error for other damage by the attack; nil: no check.
	check func(s *scene, r *result) error
}

// sources are the addresses of attackers.
type sources int

const (
	elsewhere   sources = iota // an address that no honest client has
	sameAddress                // that of the honest clients, as behind a NAT
	manySources                // 200 addresses
)

// oneIdentity is that of a hostile workload, threeIdentities those of workloads that collude.
var (
	oneIdentity     = []string{hostileAccount} //nolint:gochecknoglobals // a constant
	threeIdentities = []string{hostileAccount, hostileAccount + "-2",
		hostileAccount + "-3"} //nolint:gochecknoglobals // a constant
)

const (
	honestSource  = "127.0.0.2"
	hostileSource = "127.0.0.66"
	otherDomain   = "other.svc.cluster.local"
)

func (s sources) addresses() []string {
	switch s {
	case sameAddress:
		return []string{honestSource}
	case manySources:
		var list []string
		for i := range 200 {
			list = append(list, fmt.Sprintf("127.0.66.%d", i+1))
		}
		return list
	default:
		return []string{hostileSource}
	}
}

func named(names ...string) func(door) bool {
	return func(d door) bool { return slices.Contains(names, d.Name) }
}

func tcp(d door) bool { return d.Network != "udp" }

func dnsDoor(d door) bool { return strings.HasPrefix(d.Name, "15053") }

func rows() []row {
	return slices.Concat(refusals(), memoryAttacks(), logAttacks(), lockouts(), authorityAttacks(),
		pageAttacks(), wireAttacks())
}

func findAttack(name string) attackFunc {
	for _, x := range rows() {
		if x.name == name {
			return x.do
		}
	}
	return nil
}

func refusals() []row {
	const filter, route = "an EnvoyFilter that one proxy refuses", "a route that one proxy refuses first"
	return []row{
		{name: "filter refused, anonymous", about: filter, do: refuseListeners, doors: named("15010"),
			domain: otherDomain, reached: counted},
		{name: "filter refused, one identity", about: filter, do: refuseListeners, doors: named("15012"),
			domain: otherDomain, identities: oneIdentity, reached: counted},
		{name: "filter refused, same class and address", about: filter, do: refuseListeners,
			doors: named("15012"), identities: oneIdentity, from: sameAddress, reached: counted},
		{name: "route refused, anonymous", about: route, do: refuseRoutes, doors: named("15010"), workers: 2,
			reached: counted},
		{name: "route refused, one identity", about: route, do: refuseRoutes, doors: named("15012"),
			workers: 2, identities: oneIdentity, reached: counted},
		{name: "route refused, three identities", about: route, do: refuseRoutes, doors: named("15012"),
			workers: 3, identities: threeIdentities, reached: counted},
		{name: "route refused, same address", about: route, do: refuseRoutes, doors: named("15012"),
			workers: 2, identities: oneIdentity, from: sameAddress, reached: counted},
	}
}

func memoryAttacks() []row {
	const decoded = "messages that are decoded before the caller is known"
	return []row{
		{name: "csr with 16 MiB of nulls", about: decoded, do: csrOfNulls, doors: named("15012"), workers: 8},
		{name: "csr with 16 MiB of nulls, gzip", about: decoded, do: csrCompressed, doors: named("15012"), workers: 8},
		{name: "giant first requests", about: decoded, do: giantFirstRequest, doors: named("15010"), workers: 8},
		{name: "giant first requests, TLS", about: decoded, do: giantFirstRequest, doors: named("15012"), workers: 8},
		{name: "giant first requests, one identity", about: "16 MiB of nulls", do: giantFirstRequest,
			doors:   named("15012"),
			workers: 8, identities: oneIdentity},
		{name: "csr with 16 MiB of nulls, one identity", about: "16 MiB of nulls", do: csrOfNulls,
			doors:   named("15012"),
			workers: 8, identities: oneIdentity},
		{name: "subscriptions, anonymous", about: "4 × 500,000 names", do: manyNames, doors: named("15010"),
			workers: 2},
		{name: "subscriptions, one identity", about: "4 × 500,000 names", do: manyNames, doors: named("15012"),
			workers: 2, identities: oneIdentity},
		{name: "blocked readers", about: "streams that never read", do: silentReader, doors: named("15010"),
			workers: 4},
		{name: "big reviews", about: "3 MB each, 32 at once, twice a second", do: bigReviews, doors: named("15017"),
			workers: 32, pause: 500 * time.Millisecond},
	}
}

func logAttacks() []row {
	return []row{
		{name: "huge refusals", about: "NACK texts of 15 MB", do: hugeRefusals, doors: named("15010"), log: 2 << 10},
		{name: "forged log lines", about: "newlines in what clients name", do: forgeLogLines,
			doors: named("15010", "15012"), check: noForgedLines, reached: counted},
		{name: "forged log lines, one identity", about: "newlines in what clients name", do: forgeLogLines,
			doors: named("15012"), identities: oneIdentity, check: noForgedLines},
	}
}

func lockouts() []row {
	const silent, held = "200 streams a second that send nothing", "1,000 connections that say nothing"
	list := []row{
		{name: "silent streams", about: silent, do: silentStreams, doors: named("15010"), reached: counted},
		{name: "silent streams, TLS", about: silent, do: silentStreams, doors: named("15012"), reached: counted},
		{name: "silent streams, many sources", about: silent, do: silentStreams, doors: named("15010"),
			from: manySources, reached: counted},
		{name: "silent streams, one identity", about: silent, do: silentStreams, doors: named("15012"),
			identities: oneIdentity, reached: counted},
		{name: "silent streams, same address", about: silent, do: silentStreams, doors: named("15012"),
			from: sameAddress, reached: counted},
		{name: "idle connections, xDS", about: held, do: idle, doors: named("15010", "15012")},
		{name: "idle connections, 15017", about: held, do: idle, doors: named("15017")},
		{name: "idle connections, 15017, many sources", about: held, do: idle, doors: named("15017"),
			from: manySources},
		{name: "idle connections, pages", about: held, do: idle, doors: named("8080", "15014")},
		{name: "idle connections, agent", about: held, do: idle, doors: named("15020", "15021", "15053 tcp",
			"15090", "SDS")},
		{name: "unfinished handshakes", about: "1,000 TLS handshakes on each port", do: unfinishedHandshakes,
			doors: named("15012", "15017")},
		{name: "slow headers", about: "300 requests, a byte at a time", do: slowHeaders, doors: named("8080",
			"15014", "15017", "15020")},
		{name: "slow bodies", about: "300 requests, a byte at a time", do: slowBodies, doors: named("8080",
			"15017", "15020")},
		{name: "streams per connection", about: "more than 100", do: manyStreams, doors: named("15010",
			"15012"), check: atMostHundred},
		{name: "connection churn", about: "connections that end at once", do: churn, doors: tcp,
			pause: 50 * time.Millisecond},
	}
	for i := range list {
		list[i].share = 2 // their connections are opened over half a second
	}
	return list
}

func authorityAttacks() []row {
	return []row{
		{name: "random tokens", about: "a TokenReview for each", do: tokenReviews, doors: named("15012"),
			workers: 16, logRate: 1 << 10, reached: counted},
		{name: "renewal of a removed workload", about: "its certificate is still valid", do: renew,
			doors: named("15012"), identities: []string{removedAccount}, check: nothingIssued},
	}
}

func pageAttacks() []row {
	return []row{
		{name: "versions as labels", about: "a version for each stream", do: manyVersions,
			doors: named("15010"), workers: 8, check: fewVersions},
		{name: "cross-origin requests", about: "pages with side effects, from a browser", do: crossOrigin,
			doors: named("8080", "15014"), check: nothingDone},
		{name: "registration, anonymous", about: "WorkloadEntries by plain text", do: register, doors: named("15010"),
			check: nothingRegistered},
		{name: "debug requests over xDS", about: "in a loop", do: debugOverXDS, doors: named("15010", "15012"),
			identities: oneIdentity, workers: 2},
	}
}

// wireAttacks are about no program in particular: bytes that no client of a port would send.
func wireAttacks() []row {
	all := func(d door) bool { return tcp(d) && !dnsDoor(d) }
	plane, agent := named("15010", "15012", "15017", "8080", "15014"), named("15020", "15021", "15090", "XDS", "SDS")
	const wire, flood, slowFlood = "what no client sends", 50 * time.Millisecond, 500 * time.Millisecond
	list := []row{
		{name: "noise", about: wire, do: noise, doors: tcp},
		{name: "half handshakes", about: wire, do: halfHello, doors: all},
		{name: "slow clients", about: wire, do: slow, doors: all, workers: 4},
		{name: "huge headers", about: wire, do: hugeHeaders, doors: all, pause: flood},
		{name: "huge bodies", about: wire, do: hugeBody, doors: all, pause: flood},
		{name: "nested documents", about: wire, do: nested, doors: all, pause: flood},
		{name: "gRPC nonsense", about: wire, do: grpcNonsense, doors: all, pause: flood},
		{name: "DNS nonsense", about: wire, do: dnsNonsense, doors: dnsDoor, workers: 2},
	}
	for _, x := range []row{
		{name: "rapid reset", about: "HTTP/2, CVE-2023-44487", do: rapidReset, pause: 4 * flood, logRate: 1 << 10},
		{name: "continuation flood", about: "HTTP/2, CVE-2023-45288", do: continuation, pause: flood},
		{name: "ping and settings flood", about: "HTTP/2", do: pings, pause: flood},
	} {
		onAgent := x
		x.doors, onAgent.doors, onAgent.name = plane, agent, x.name+", agent"
		onAgent.pause = slowFlood // Envoy has one worker for all connections
		list = append(list, x, onAgent)
	}
	return list
}

// counted returns an error if the count of the attack is zero.
func counted(o outcome) error {
	if o.Count == 0 {
		return fmt.Errorf("the attack did not reach its target: %v", o.Errors)
	}
	return nil
}

func noForgedLines(s *scene, r *result) error {
	text, err := s.plane.logSince(r.before[s.plane].log)
	if err != nil {
		return err
	}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool {
		return r == '\n' || r == '\r' ||
			r == '\u2028'
	}) {
		if strings.HasPrefix(line, forgedLine) {
			return fmt.Errorf("the log has a line of the attacker's: %.200q", line)
		}
		if strings.ContainsRune(line, '\x1b') {
			return fmt.Errorf("the log has an escape sequence of the attacker's: %.200q", line)
		}
	}
	return nil
}

func atMostHundred(_ *scene, r *result) error {
	if r.outcome.Count > 100 {
		return fmt.Errorf("a connection may have %d streams", r.outcome.Count)
	}
	return nil
}

func nothingIssued(_ *scene, r *result) error {
	if r.outcome.Count > 0 {
		return fmt.Errorf("%d certificates were issued to a workload that was removed", r.outcome.Count)
	}
	return nil
}

func nothingDone(_ *scene, r *result) error {
	if r.outcome.Count > 0 {
		return fmt.Errorf("%d cross-origin requests were carried out", r.outcome.Count)
	}
	return nil
}

func nothingRegistered(s *scene, _ *result) error {
	list, err := s.entries.List(s.t.Context(), metav1.ListOptions{})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("an anonymous client registered %d workloads", len(list.Items))
	}
	return err
}

// mostVersions is how many versions the metrics may have labels of.
const mostVersions = 20

func fewVersions(s *scene, _ *result) error {
	text, err := serving.Page(s.plane.metrics)
	if err != nil {
		return err
	}
	if n := strings.Count(text, madeUpVersion); n > mostVersions {
		return fmt.Errorf("the metrics have %d versions that clients made up", n)
	}
	return nil
}
