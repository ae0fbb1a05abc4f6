package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestSlowObjectIsReportedComplete: an object that reaches all proxies only after minutes stays in
// the report for a minute from then on, so that the leader adds its proxies, and is not reported
// again later.
func TestSlowObjectIsReportedComplete(t *testing.T) {
	key := config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "reviews"}
	now := time.Unix(1000, 0)
	count := Count{Proxies: 3, Acknowledged: 2}
	applied := NewAppliedObjects("", func() time.Time { return now })
	applied.newestSnapshot = 1
	applied.recordObject(key, appliedObject{generation: 4})
	applied.markPublished()
	r := &reporter{
		now: func() time.Time { return now },
		Inputs: Inputs{Applied: applied, Distribution: func(map[config.Key]struct{}) (uint64, map[config.Key]Count) {
			return 1, map[config.Key]Count{key: count}
		}},
	}
	leader := newReportCollector("a", DefaultTiming())
	began := now
	for _, step := range []struct {
		after        time.Duration
		acknowledged int
		want         Count // sum of the leader, which has two proxies
	}{
		{0, 2, Count{5, 4}},
		{3 * time.Minute, 2, Count{5, 4}},
		{3*time.Minute + time.Second, 3, Count{5, 5}},
		{4 * time.Minute, 3, Count{5, 5}},
		{4*time.Minute + 2*time.Second, 3, Count{2, 2}}, // the leader has written it by then
		{6 * time.Minute, 3, Count{2, 2}},
	} {
		now, count.Acknowledged = began.Add(step.after), step.acknowledged
		r.last = report{Time: now, Objects: r.countProgress()}
		leader.reports["b"] = receivedReport{r.last, now}
		sum, _ := leader.addCounts(key, 4, Count{2, 2}, step.after, now)
		if diff := cmp.Diff(step.want, sum); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", step.after, diff)
		}
	}
}
