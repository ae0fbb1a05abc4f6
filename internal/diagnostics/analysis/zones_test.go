package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func TestZoneAwareRouting(t *testing.T) {
	const rule = `
kind: DestinationRule
metadata: {name: rule}
spec:
  host: web
  trafficPolicy:
    loadBalancer: {zoneAwareLbSetting: {minClusterSize: 1}}
    portLevelSettings: [{port: {number: 80}, loadBalancer: {zoneAwareLbSetting: {enabled: true}}}]
  subsets:
  - {name: "on", trafficPolicy: {loadBalancer: {zoneAwareLbSetting: {enabled: true}}}}
  - {name: "off", trafficPolicy: {loadBalancer: {zoneAwareLbSetting: {enabled: false}}}}
`
	for _, c := range []struct {
		name, mesh string
		want       []string
	}{
		{"without self-discovery", `zoneAwareLbSetting: {enabled: true}`, []string{
			"zoneAwareLbSetting", "spec.trafficPolicy.loadBalancer.zoneAwareLbSetting",
			"spec.trafficPolicy.portLevelSettings[0].loadBalancer.zoneAwareLbSetting", "spec.subsets[0].trafficPolicy.loadBalancer.zoneAwareLbSetting",
		}},
		{"with it", "zoneAwareLbSetting: {enabled: true}\n" + `defaultConfig: {proxyMetadata: {ISTIO_META_ENABLE_SELF_DISCOVERY: "true"}}`, nil},
	} {
		a := &analyzer{s: fixture.New(t, []byte(rule), []byte(c.mesh)).Snapshot()}
		a.reportZoneAwareRouting()
		var got []string
		for _, p := range a.found {
			got = append(got, p.Field)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s", c.name, diff)
		}
	}
}
