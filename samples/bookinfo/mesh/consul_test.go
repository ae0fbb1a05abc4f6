package mesh

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/samples/bookinfo"
)

func TestRegistrations(t *testing.T) {
	p, err := readPlatform(bookinfo.Platform())
	if err != nil {
		t.Fatal(err)
	}
	all := p.registrations()
	var ids []string
	for _, r := range all {
		ids = append(ids, r.Name+"/"+r.ID)
	}
	want := []string{
		"details/details-v1", "productpage/productpage-v1", "ratings/ratings-v1",
		"reviews/reviews-v1", "reviews/reviews-v2", "reviews/reviews-v3",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	v2 := &api.AgentServiceRegistration{
		ID: "reviews-v2", Name: "reviews", Address: "10.66.1.32", Port: 9080, Tags: []string{"v2"},
		Meta:            map[string]string{"app": "reviews", "version": "v2", "protocol": "http", "service-account": "bookinfo-reviews"},
		TaggedAddresses: map[string]api.ServiceAddress{"virtual": {Address: "10.96.1.3", Port: 9080}},
		Check: &api.AgentServiceCheck{
			Name: "health of reviews", Interval: "500ms", Timeout: "5s",
			HTTP: "http://10.66.1.32:15020/app-health/reviews/readyz",
		},
	}
	if i := slices.Index(ids, "reviews/reviews-v2"); i < 0 {
		t.Error("reviews-v2 is not registered")
	} else if diff := cmp.Diff(v2, all[i]); diff != "" {
		t.Errorf("reviews-v2 (-want +got):\n%s", diff)
	}
	hosts, err := p.consulHosts()
	if err != nil || hosts["reviews.service.consul"].String() != "10.96.1.3" || len(hosts) != 4 {
		t.Errorf("hosts %v, %v", hosts, err)
	}
	if env := p.consulAddresses(); !slices.Contains(env, "REVIEWS_ADDRESS=reviews.service.consul:9080") {
		t.Errorf("variables %v", env)
	}
	if got := p.workloadGroups(); strings.Count(got, "WorkloadGroup") != 1 || !strings.Contains(got, "name: client,") {
		t.Errorf("workload groups of pods without a service:\n%s", got)
	}
	if got, want := ConsulURL(Reviews), "http://reviews.service.consul:9080/reviews/0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
