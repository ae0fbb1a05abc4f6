package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestRetiredKindsWarn: an object of a retired kind is accepted with a warning that names the
// successor; one of another program's kind is accepted without a warning.
func TestRetiredKindsWarn(t *testing.T) {
	judge := func(object string) validationResult {
		return (&Validator{}).validateObject(
			&admissionv1.AdmissionRequest{
				Operation: admissionv1.Create,
				Object:    runtime.RawExtension{Raw: []byte(object)},
			},
		)
	}
	for _, test := range []struct{ object, want string }{
		{`{"apiVersion":"rbac.istio.io/v1alpha1","kind":"ClusterRbacConfig","metadata":{"name":"default"}}`, "use AuthorizationPolicy"},
		{`{"apiVersion":"authentication.istio.io/v1alpha1","kind":"Policy","metadata":{"name":"a","namespace":"b"}}`, "use PeerAuthentication"},
		{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b"}}`, ""},
	} {
		v := judge(test.object)
		if got := strings.Join(v.warnings, "\n"); len(v.errors) > 0 || (got == "") != (test.want == "") ||
			!strings.Contains(got, test.want) {
			t.Errorf("%s: faults %v, warnings %q; want %q", test.object, v.errors, got, test.want)
		}
	}
	const filter = `{"apiVersion":"networking.istio.io/v1alpha3","kind":"EnvoyFilter","metadata":{"name":"a","namespace":"b"},"spec":{"filters":[]}}`
	if v := judge(filter); len(v.errors) != 1 || !strings.Contains(v.errors[0].Reason, "use configPatches") {
		t.Errorf("an EnvoyFilter of Istio 1.0: %+v", v)
	}
}
