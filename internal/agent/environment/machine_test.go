package environment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOfMachine tests the variables that a machine, unlike a pod, derives itself. Variables that
// are set are kept.
func TestOfMachine(t *testing.T) {
	for name, test := range map[string]struct{ vars, want Variables }{
		"as configured": {
			Variables{"POD_NAMESPACE": "vms", "ISTIO_NAMESPACE": "vms", "ISTIO_SVC_IP": "10.0.0.9"},
			Variables{
				"POD_NAME": "machine", "POD_NAMESPACE": "vms", "ISTIO_NAMESPACE": "vms", "ISTIO_SVC_IP": "10.0.0.9", "INSTANCE_IP": "10.0.0.9",
				"PROV_CERT": "./etc/certs", "OUTPUT_CERTS": "./etc/certs",
			},
		},
		"by hand": {
			Variables{"POD_NAME": "own", "ISTIO_NAMESPACE": "vms", "OUTPUT_CERTS": "/certs", "INSTANCE_IP": "10.0.0.1", "ISTIO_SVC_IP": "10.0.0.9"},
			Variables{
				"POD_NAME": "own", "POD_NAMESPACE": "vms", "ISTIO_NAMESPACE": "vms", "ISTIO_SVC_IP": "10.0.0.9", "INSTANCE_IP": "10.0.0.1",
				"PROV_CERT": "./etc/certs", "OUTPUT_CERTS": "/certs",
			},
		},
		"with certificates of others": {Variables{"FILE_MOUNTED_CERTS": "true"}, Variables{"FILE_MOUNTED_CERTS": "true", "POD_NAME": "machine"}},
	} {
		if diff := cmp.Diff(test.want, WithMachineDefaults(test.vars, "machine.example.com")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
