package statefile

// EncodeFile is encode for the tests of this package.
var EncodeFile = encode
