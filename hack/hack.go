// Package hack has scripts of this folder that programs run too, embedded as they were when the
// program was built.
package hack

import _ "embed" // FetchEnvoy is the text of a file

// FetchEnvoy is envoy.sh: a script for bash that prints the path of an Envoy, and fetches it first
// if it is not in the user's cache.
//
//go:embed envoy.sh
var FetchEnvoy string
