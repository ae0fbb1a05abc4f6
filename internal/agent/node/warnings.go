package node

// Warnings returns a warning for each set port of metrics over mutual TLS if the workload has no
// certificate of the mesh, otherwise nil.
func Warnings(n Node) []string {
	if n.Struct.GetFields()["MESHPILOT_IDENTITY"].GetStringValue() != "none" {
		return nil
	}
	var list []string
	for _, port := range []struct {
		variable string
		number   int
	}{
		{"ENVOY_SECURE_METRICS_PORT", n.Metadata.EnvoySecureMetricsPort},
		{"ENVOY_SECURE_MERGED_METRICS_PORT", n.Metadata.EnvoySecureMergedMetricsPort},
	} {
		if port.number != 0 {
			list = append(list, "environment variable "+port.variable+
				" has no effect: the workload has no certificate of the mesh")
		}
	}
	return list
}
