package proxyconfig

import (
	"slices"
	"testing"

	networkingv1beta1 "istio.io/api/networking/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestEveryFieldIsReported: what has no effect is told of field by field, and nothing else is.
func TestEveryFieldIsReported(t *testing.T) {
	if found := Unhonoured(new(networkingv1beta1.ProxyConfig)); found != nil {
		t.Errorf("of nothing: %v", found)
	}
	spec := &networkingv1beta1.ProxyConfig{
		Selector: new(typev1beta1.WorkloadSelector), Concurrency: wrapperspb.Int32(0), EnvironmentVariables: map[string]string{"a": "b"},
		Image: &networkingv1beta1.ProxyImage{ImageType: "debug"},
	}
	var fields []string
	for _, p := range Unhonoured(spec) {
		fields = append(fields, p.Field)
	}
	all := spec.ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		if !slices.Contains(fields, "spec."+all.Get(i).JSONName()) {
			t.Errorf("%s is not reported", all.Get(i).JSONName())
		}
	}
}
