// Package compare compares what two control planes, or two versions of one, send to the same proxy.
//
// The inputs are the resources of a proxy, from a config dump or from [Fetch], which connects to a
// control plane in place of the proxy. [Facts] reduces them to the properties that a client can
// observe: which clusters, endpoints, listeners, TCP destinations, virtual hosts, routes, timeouts,
// retries and TLS settings there are. Their encoding, versions, names of filter chains and filters
// are not facts. The output is a [Report] with the facts that differ. Inbound listeners and access
// policies are not compared.
//
// Start reading with [Report.Add] in report.go.
package compare
