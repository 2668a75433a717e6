package arch

// exceptions maps files and functions that exceed a limit to the reason for the exception. The test
// fails if an exception is no longer needed.
var exceptions = map[string]string{}
