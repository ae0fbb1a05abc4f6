// Package sites has two meshes on networks of their own, each with a real Consul server, a control plane
// and workloads behind Envoys. One reads the services of the other from its Consul server: as another
// datacenter, or as a cluster peer. Requests cross to the other network through its gateway, with mutual
// TLS from sidecar to sidecar.
package sites
