package mesh

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/consul/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// consulDomain is the suffix of the hosts of services in Consul.
const consulDomain = ".service.consul"

// statusPort is the port of the agent beside Envoy. Its traffic is not captured.
const statusPort = 15020

// registrations returns one registration for each service and each pod that it selects, of the pods that
// are registered in Consul.
func (p *platform) registrations() []*api.AgentServiceRegistration {
	var all []*api.AgentServiceRegistration
	for _, service := range p.services {
		for _, pod := range p.pods {
			if p.registered != nil && !p.registered(pod) {
				continue
			}
			selector := labels.SelectorFromSet(service.Spec.Selector)
			if pod.Namespace == service.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				all = append(all, newRegistration(service, pod))
			}
		}
	}
	return all
}

// workloadGroups returns a WorkloadGroup for each pod that no service selects, as YAML. Consul does not
// list these callers, and a service account has an identity only if a workload may have it.
func (p *platform) workloadGroups() string {
	listed := map[string]bool{}
	for _, r := range p.registrations() {
		listed[r.ID] = true
	}
	var docs []string
	for _, pod := range p.pods {
		if !listed[pod.Name] {
			docs = append(docs, fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\n"+
				"metadata: {name: %s, namespace: %s}\nspec: {template: {serviceAccount: %s}}\n", pod.Name, pod.Namespace, serviceAccount(pod)))
		}
	}
	return strings.Join(docs, "---\n")
}

// newRegistration returns the registration of a pod as an instance of a service: its labels as meta,
// its identity, the virtual address of the service, and a health check that Consul runs.
func newRegistration(service *corev1.Service, pod *corev1.Pod) *api.AgentServiceRegistration {
	port := service.Spec.Ports[0]
	meta := map[string]string{"protocol": port.Name, "service-account": serviceAccount(pod)}
	for _, key := range []string{"app", "version"} {
		if v := pod.Labels[key]; v != "" {
			meta[key] = v
		}
	}
	r := &api.AgentServiceRegistration{
		ID: pod.Name, Name: service.Name, Address: pod.Status.PodIP, Port: port.TargetPort.IntValue(), Meta: meta,
		Tags: []string{pod.Labels["version"]},
		TaggedAddresses: map[string]api.ServiceAddress{
			"virtual": {Address: service.Spec.ClusterIP, Port: int(port.Port)},
		},
	}
	for _, c := range pod.Spec.Containers {
		if len(c.Ports) > 0 {
			r.Check = &api.AgentServiceCheck{
				Name: "health of " + c.Name, Interval: "500ms", Timeout: "5s",
				HTTP: fmt.Sprintf("http://%s:%d%s", pod.Status.PodIP, statusPort, probePath(c.Name)),
			}
			break
		}
	}
	return r
}

// consulHosts returns the virtual addresses of all services by the names that they have in Consul,
// which a machine resolves with Consul's DNS interface or with the agent's.
func (p *platform) consulHosts() (map[string]netip.Addr, error) {
	hosts := map[string]netip.Addr{}
	for _, s := range p.services {
		addr, err := clusterIP(s)
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", s.Namespace, s.Name, err)
		}
		hosts[s.Name+consulDomain] = addr
	}
	return hosts, nil
}

// consulAddresses returns the variables by which apps call each other: NAME_ADDRESS=HOST:PORT.
func (p *platform) consulAddresses() []string {
	var env []string
	for _, s := range p.services {
		address := fmt.Sprintf("%s%s:%d", s.Name, consulDomain, s.Spec.Ports[0].Port)
		env = append(env, strings.ToUpper(s.Name)+"_ADDRESS="+address)
	}
	return env
}

// ConsulURL returns the URL of a caller, such as Reviews, with the host that its service has in Consul.
func ConsulURL(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, ":")
	return scheme + "://" + host + consulDomain + ":" + path
}
