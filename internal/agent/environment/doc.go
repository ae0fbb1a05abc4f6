// Package environment reads the variables that pod templates, cluster.env files and users set for the agent.
//
// In: the process's environment as a list, and proxyMetadata, which counts as defaults for it. Out: an [Environment].
// Law: reads nothing but its arguments. A value that cannot be read is an error that names the variable; a variable that
// asks for something the agent does not do yet is an error if relying on it would break the workload, else a warning.
//
// Start with [Parse] in environment.go; metadata.go has the ISTIO_META_ variables.
package environment
