package environment

import "strings"

// machineCertDir is where the agent of a virtual machine stores the workload's certificate, as
// Istio's package for virtual machines does. The token that came with the machine is valid for the
// first connection only.
const machineCertDir = "./etc/certs"

// WithMachineDefaults returns v with defaults for a virtual machine, which has no downward API for
// its name and address. Istio's istio-start.sh sets the same before it starts the agent. With
// FILE_MOUNTED_CERTS no certificate directories are added.
func WithMachineDefaults(v Variables, hostname string) Variables {
	short, _, _ := strings.Cut(hostname, ".")
	more := map[string]string{"POD_NAME": short, "PROV_CERT": machineCertDir, "OUTPUT_CERTS": machineCertDir}
	for name, from := range map[string]string{"POD_NAMESPACE": "ISTIO_NAMESPACE", "INSTANCE_IP": "ISTIO_SVC_IP"} {
		if value := v[from]; value != "" {
			more[name] = value
		}
	}
	if (&reader{vars: v}).readBool("FILE_MOUNTED_CERTS", false) {
		delete(more, "PROV_CERT") // the certificates are mounted and not written by the agent
		delete(more, "OUTPUT_CERTS")
	}
	return v.WithDefaults(more)
}
