package environment

import "strings"

// certificates is where the agent of a virtual machine keeps the workload's certificate, as Istio's package for virtual machines
// has it: the token that came with the machine is good for its first connection only.
const certificates = "./etc/certs"

// OfMachine completes the variables of a virtual machine. There is no downward API to say what its name and address are;
// Istio's istio-start.sh does, before it starts the agent.
func OfMachine(v Variables, hostname string) Variables {
	short, _, _ := strings.Cut(hostname, ".")
	more := map[string]string{"POD_NAME": short, "PROV_CERT": certificates, "OUTPUT_CERTS": certificates}
	for name, from := range map[string]string{"POD_NAMESPACE": "ISTIO_NAMESPACE", "INSTANCE_IP": "ISTIO_SVC_IP"} {
		if value := v[from]; value != "" {
			more[name] = value
		}
	}
	if (&reader{vars: v}).boolean("FILE_MOUNTED_CERTS", false) {
		delete(more, "PROV_CERT") // somebody else brings them, and they are not ours to write
		delete(more, "OUTPUT_CERTS")
	}
	return v.WithDefaults(more)
}
