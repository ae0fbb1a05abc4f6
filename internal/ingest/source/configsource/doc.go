// Package configsource opens the sources of config objects that a mesh configuration lists.
//
// The input is meshConfig.configSources. The outputs are the feeds, in the order of the list, which
// is their precedence. A source that is invalid, or listed twice, is an error that names its field,
// so that a control plane does not start with fewer sources than configured.
//
// Start reading with [Open].
package configsource
