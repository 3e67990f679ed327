# Installing comes with the package files.
