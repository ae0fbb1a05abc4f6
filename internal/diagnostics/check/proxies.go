package check

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// clustersSynced fails for each cluster that a replica has not synchronized, and for each replica
// that does not answer. A malformed answer is the only failure that it then reports.
func clustersSynced(ctx context.Context, t *Target) outcome {
	answers, wrong := t.eachAnswer(ctx, "/debug/clusterz")
	count := 0
	for name, body := range answers {
		var list []debug.Cluster
		if err := json.Unmarshal(body, &list); err != nil {
			return fail("/debug/clusterz: %v", err)
		}
		count = max(count, len(list))
		for _, c := range list {
			if c.SyncStatus != "synced" {
				wrong.add("%s: cluster %s is %s %s", name, c.ID, c.SyncStatus, strings.TrimSpace(c.Waiting))
			}
		}
	}
	slices.Sort(wrong)
	return conclude(wrong, nil, "%d clusters", count)
}

// proxies returns the states of the connected proxies of all replicas, sorted by name, and a
// finding for each replica that does not answer or answers malformed JSON.
func (t *Target) proxies(ctx context.Context) ([]debug.SyncStatus, findings) {
	answers, wrong := t.eachAnswer(ctx, "/debug/syncz")
	var all []debug.SyncStatus
	for name, body := range answers {
		var list []debug.SyncStatus
		if err := json.Unmarshal(body, &list); err != nil {
			wrong.add("%s: /debug/syncz: %v", name, err)
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b debug.SyncStatus) int { return strings.Compare(a.Proxy, b.Proxy) })
	return all, wrong
}

// nothingRefused fails for each proxy that refuses resources, or from which resources are withheld
// because proxies refuse them, and for each replica that does not answer.
func nothingRefused(ctx context.Context, t *Target) outcome {
	list, wrong := t.proxies(ctx)
	for _, s := range list {
		addRefusals(s, &wrong)
	}
	return conclude(wrong, nil, "%d proxies are connected", len(list))
}

// addRefusals adds to wrong the resource types that a proxy refuses and the resources that are
// withheld from it. A type may be added twice, for both.
func addRefusals(s debug.SyncStatus, wrong *findings) {
	for url, r := range s.Resources {
		kind := url[strings.LastIndexByte(url, '.')+1:]
		if r.LastError != "" {
			wrong.add("%s refuses %s: %s", s.Proxy, kind, strings.Join(strings.Fields(r.LastError), " "))
		}
		if len(r.Quarantined) > 0 {
			wrong.add("%s is not sent %s %s, because proxies refuse it", s.Proxy, kind,
				strings.Join(r.Quarantined, ", "))
		}
	}
}

// ackTime is how long a proxy may take to acknowledge a response.
const ackTime = 30 * time.Second

// proxiesSynced warns of each proxy that has not acknowledged a response within ackTime. It fails
// if a replica does not answer.
func proxiesSynced(ctx context.Context, t *Target) outcome {
	list, wrong := t.proxies(ctx)
	var late findings
	for _, s := range list {
		t.addLate(s, &late)
	}
	return conclude(wrong, late, "%d proxies", len(list))
}

// addLate adds each type whose last response the proxy has neither acknowledged nor refused within
// ackTime.
func (t *Target) addLate(s debug.SyncStatus, late *findings) {
	for url, r := range s.Resources {
		if waited := t.Now().Sub(r.SentTime); r.Sent != r.Acked && r.LastError == "" && waited > ackTime {
			late.add("%s has not acknowledged %s for %s", s.Proxy, url[strings.LastIndexByte(url, '.')+1:],
				waited.Round(time.Second))
		}
	}
}

// Releases of Envoy 1.x that are supported (docs/adr/0034).
const (
	oldestEnvoy = 36
	newestEnvoy = 40
)

// versionsSupported warns of each connected proxy whose Envoy release is not supported. Proxies
// without a version are skipped. It fails if a replica does not answer.
func versionsSupported(ctx context.Context, t *Target) outcome {
	list, wrong := t.proxies(ctx)
	var odd findings
	known := 0
	for _, s := range list {
		if s.EnvoyVersion == "" {
			continue
		}
		known++
		if text := envoySkew(s.EnvoyVersion); text != "" {
			odd.add("%s: %s", s.Proxy, text)
		}
	}
	return conclude(wrong, odd, "%d proxies, Envoy 1.%d to 1.%d", known, oldestEnvoy, newestEnvoy)
}

// envoySkew returns a text if a release of Envoy is older or newer than the supported ones. It
// returns "" for supported and for unknown ones. A version that is not of the form 1.MINOR is
// unknown.
func envoySkew(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return ""
	}
	minor, err := strconv.Atoi(parts[1])
	switch {
	case err != nil || parts[0] != "1":
		return ""
	case minor < oldestEnvoy:
		return "Envoy " + version + " is older than 1." + strconv.Itoa(oldestEnvoy)
	case minor > newestEnvoy:
		return "Envoy " + version + " is newer than 1." + strconv.Itoa(newestEnvoy)
	}
	return ""
}
