package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// readObject reads any YAML as an object of a kind, nil if it cannot be one.
func readObject(kind api.Kind, text []byte, name string) *config.Config {
	info, _ := api.Info(kind)
	spec := info.NewObject()
	if len(text) > 1<<14 || yaml.Unmarshal(text, spec) != nil {
		return nil
	}
	meta := config.Meta{Key: config.Key{Kind: kind, Name: name}, Labels: spec.GetLabels(), Annotations: spec.GetAnnotations(), Created: spec.GetCreationTimestamp().Time}
	if !info.ClusterScoped {
		meta.Namespace = "default"
	}
	c, err := config.New(meta, spec)
	if err != nil {
		return nil
	}
	return c
}

// FuzzConvert: arbitrary objects of a cluster are converted equally at once, one by one, and in
// reverse order. The events are well-formed (conform.State), and nothing is left when the objects
// are deleted.
func FuzzConvert(f *testing.F) {
	for _, s := range [][3]string{
		{reviewsService, reviewsSlice, reviewsPod}, {manualSlice, "", node1}, {"spec: {type: ExternalName, externalName: a.example.com}", "addressType: FQDN\nendpoints: [{}]", "status: {podIP: x}"},
		{"spec: {clusterIP: None, ports: [{port: 70000}, {port: -1, targetPort: x}], selector: {a: b}}", "endpoints: [{addresses: ['::1', ''], targetRef: {kind: Pod, name: c}}]\nports: [{}]", "spec: {containers: [{ports: [{name: a, containerPort: -5}]}]}\nstatus: {podIPs: [{ip: '::'}]}"},
		{"metadata: {annotations: {networking.istio.io/exportTo: ',.,*', traffic.istio.io/nodeSelector: '{'}}\nspec: {type: NodePort, ports: [{nodePort: 99999}]}", "metadata: {labels: {kubernetes.io/service-name: a}}", "metadata: {labels: {istio-locality: '...', topology.istio.io/network: n}}"},
	} {
		f.Add([]byte(s[0]), []byte(s[1]), []byte(s[2]), true)
		f.Add([]byte(s[0]), []byte(s[1]), []byte(s[2]), false)
	}
	f.Fuzz(func(t *testing.T, service, slice, pod []byte, files bool) {
		var batch mesh.Batch
		for _, o := range []*config.Config{
			readObject(api.Service, service, "a"), readObject(api.EndpointSlice, slice, "b"), readObject(api.Pod, pod, "c"), readObject(api.Node, pod, "d"),
		} {
			if o != nil {
				batch = append(batch, mesh.Event{Config: o})
			}
		}
		o := kube.Options{
			EndpointsFromPods: files, ReadyOnly: files, DualStack: !files,
			SelectWorkloadEntries: true, DiscoverGateways: true,
		}
		together, single, backwards := conform.NewState(), conform.NewState(), conform.NewState()
		c := kube.New(o)
		if err := together.Apply(c.Convert(batch)); err != nil {
			t.Fatal(err)
		}
		one, back := kube.New(o), kube.New(o)
		for i := range batch {
			if err := single.Apply(one.Convert(batch[i : i+1])); err != nil {
				t.Fatal(err)
			}
			if err := backwards.Apply(back.Convert(batch[len(batch)-1-i : len(batch)-i])); err != nil {
				t.Fatal(err)
			}
		}
		for name, other := range map[string]*conform.State{"one by one": single, "backwards": backwards} {
			if diff := cmp.Diff(together, other); diff != "" {
				t.Errorf("%s (-together +%s):\n%s", name, name, diff)
			}
		}
		for i := range batch {
			batch[i].Op = mesh.Delete
		}
		if err := together.Apply(c.Convert(batch)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(conform.NewState(), together); diff != "" {
			t.Errorf("something is left (-want +got):\n%s", diff)
		}
	})
}
