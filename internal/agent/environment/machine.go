package environment

import "strings"

// machineCertDir is where the agent of a virtual machine stores the workload's certificate, as
// Istio's package for virtual machines does. The token that came with the machine is valid for the
// first connection only.
const machineCertDir = "./etc/certs"

// WithMachineDefaults returns a copy of v with defaults for a virtual machine, as Istio's
// istio-start.sh sets them; variables that v has stay. POD_NAME is the first label of hostname.
// POD_NAMESPACE and INSTANCE_IP come from ISTIO_NAMESPACE and ISTIO_SVC_IP. PROV_CERT and
// OUTPUT_CERTS are machineCertDir, unless FILE_MOUNTED_CERTS is true.
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
