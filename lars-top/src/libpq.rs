//! A PostgreSQL database as libpq finds it (feature `durable`): by the parameters that are given,
//! then those of a service, then the environment's, then defaults; with the password from the
//! password file, and with TLS.

mod tls;

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use lars_durable::{Builder, Durable};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Names and values. A name stands once.
type Parameters = Vec<(String, String)>;

/// The variables, and the parameters that they stand for.
const VARIABLES: [(&str, &str); 17] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGCHANNELBINDING", "channel_binding"),
];

/// Where a server on this machine has its socket, on Debian and elsewhere.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// What a variable of the environment holds.
type Variable = Box<dyn Fn(&str) -> Option<String>>;

/// What is outside the parameters.
struct Surroundings {
    variable: Variable,
}

/// What is wrong with connection parameters. It never has a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParametersError(String);

impl Surroundings {
    fn of_process() -> Self {
        Self { variable: Box::new(|name| std::env::var(name).ok()) }
    }

    /// An empty variable is none.
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn at_home(&self, file: &str) -> Option<PathBuf> {
        self.get("HOME").map(|home| Path::new(&home).join(file))
    }
}

/// A database, and how it is connected to.
///
/// # Examples
///
/// ```
/// use lars_top::libpq::Database;
///
/// let database = Database::find("postgres://shop@db/shop?sslmode=require", "my-program")?;
/// let builder = database.builder().group("billing"); // of an observer, or a node
/// assert!(Database::find("host=db user='shop", "my-program").is_err());
/// # drop(builder);
/// # Ok::<(), lars_top::libpq::ParametersError>(())
/// ```
#[derive(Clone)]
pub struct Database {
    parameters: String,
    tls: MakeRustlsConnect,
}

impl Database {
    /// The database that libpq would find. `given` are some of its parameters, a URL, or the name
    /// of a database. A password file that others can read is left out, which is said on the
    /// standard error. The program is known to the server by its name.
    ///
    /// `sslmode` is one of `disable`, `prefer`, `require`, `verify-ca` and `verify-full`, as libpq
    /// means them; `sslrootcert`, `sslcert` and `sslkey` name files, which are read now.
    ///
    /// # Errors
    ///
    /// [`ParametersError`] names what is wrong.
    pub fn find(given: &str, program: &str) -> Result<Self, ParametersError> {
        let around = Surroundings::of_process();
        let mut parameters = complete(given, program, &around).map_err(ParametersError)?;
        let tls = tls::take(&mut parameters, &around).map_err(ParametersError)?;
        Ok(Self { parameters: joined(&parameters), tls })
    }

    /// What an observer of this database, or a node, is made from.
    pub fn builder(&self) -> Builder {
        Durable::postgres(&*self.parameters).tls(self.tls.clone())
    }
}

/// Without the password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

/// The parameters with all that libpq would add.
fn complete(given: &str, program: &str, around: &Surroundings) -> Result<Parameters, String> {
    let mut parameters = parse(given)?;
    if let Some(service) = take(&mut parameters, "service").or_else(|| around.get("PGSERVICE")) {
        add(&mut parameters, of_service(&service, around)?);
    }
    let variables = VARIABLES.iter().filter_map(|(variable, name)| {
        around.get(variable).map(|value| ((*name).to_owned(), value))
    });
    add(&mut parameters, variables.collect());
    let user = around.get("USER").or_else(|| around.get("LOGNAME"));
    add(&mut parameters, user.map(|user| ("user".to_owned(), user)).into_iter().collect());
    add(&mut parameters, vec![("application_name".to_owned(), program.to_owned())]);
    if get(&parameters, "host").is_none() && get(&parameters, "hostaddr").is_none() {
        let port = get(&parameters, "port").unwrap_or("5432");
        let socket = |place: &&&str| Path::new(place).join(format!(".s.PGSQL.{port}")).exists();
        let host = SOCKETS.iter().find(socket).unwrap_or(&"localhost");
        parameters.push(("host".to_owned(), (*host).to_owned()));
    }
    let file = take(&mut parameters, "passfile").map(PathBuf::from);
    if get(&parameters, "password").is_none()
        && let Some(file) = file.or_else(|| around.at_home(".pgpass"))
    {
        match of_password_file(&file, &parameters) {
            Ok(password) => parameters.extend(password.map(|it| ("password".to_owned(), it))),
            // It may do without.
            Err(why) => eprintln!("{program}: {why}; it is left out"),
        }
    }
    Ok(parameters)
}

/// As one text.
fn joined(parameters: &Parameters) -> String {
    let quoted = |(name, value): &(String, String)| {
        format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
    };
    parameters.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn get<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.iter().find(|(it, _)| it == name).map(|(_, value)| &**value)
}

fn take(parameters: &mut Parameters, name: &str) -> Option<String> {
    let at = parameters.iter().position(|(it, _)| it == name)?;
    Some(parameters.remove(at).1)
}

/// Adds what is not there.
fn add(parameters: &mut Parameters, more: Parameters) {
    for (name, value) in more {
        if get(parameters, &name).is_none() {
            parameters.push((name, value));
        }
    }
}

/// Sets a parameter; the last one counts.
fn set(parameters: &mut Parameters, name: &str, value: String) {
    take(parameters, name);
    parameters.push((name.to_owned(), value));
}

fn parse(given: &str) -> Result<Parameters, String> {
    let url = ["postgres://", "postgresql://"].iter().find_map(|it| given.strip_prefix(it));
    match url {
        Some(rest) => of_url(rest),
        None if given.contains('=') || given.trim().is_empty() => of_pairs(given),
        None => Ok(vec![("dbname".to_owned(), given.to_owned())]),
    }
}

/// `name = value name='a value'`, with `\` before what is meant as it is.
fn of_pairs(given: &str) -> Result<Parameters, String> {
    let mut parameters = Vec::new();
    let mut rest = given.trim_start();
    while !rest.is_empty() {
        let Some((name, value)) = rest.split_once('=') else {
            return Err("a parameter has no `=`".to_owned());
        };
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("a parameter has no name, or no `=`".to_owned());
        }
        let (value, after) = of_value(value.trim_start())
            .ok_or_else(|| format!("the value of {name} has no end: a quote is missing"))?;
        set(&mut parameters, name, value);
        rest = after.trim_start();
    }
    Ok(parameters)
}

/// A value, and what follows it; `None` if it has no end.
fn of_value(given: &str) -> Option<(String, &str)> {
    let quoted = given.starts_with('\'');
    let text = if quoted { &given[1..] } else { given };
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.push(characters.next()?.1),
            '\'' if quoted => return Some((value, &text[at + 1..])),
            _ if !quoted && character.is_whitespace() => return Some((value, &text[at..])),
            _ => value.push(character),
        }
    }
    (!quoted).then_some((value, ""))
}

/// What follows the `//` of a URL: `user:password@host:port,host:port/dbname?name=value&…`.
fn of_url(rest: &str) -> Result<Parameters, String> {
    let mut parameters = Vec::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, dbname) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let host_and_port = |host: &str| {
        let (host, port) = match host.rfind(':') {
            // The colons of an address are in brackets.
            Some(colon) if !host[colon..].contains(']') => (&host[..colon], &host[colon + 1..]),
            _ => (host, ""),
        };
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        (host.to_owned(), if port.is_empty() { "5432" } else { port }.to_owned())
    };
    let with_port = hosts.split(',').any(|host| host_and_port(host).1 != "5432");
    let (hosts, ports): (Vec<_>, Vec<_>) = hosts.split(',').map(host_and_port).unzip();
    let ports = if with_port { ports.join(",") } else { String::new() };
    let parts = [
        ("user", user),
        ("password", password),
        ("host", &hosts.join(",")),
        ("port", &ports),
        ("dbname", dbname),
    ];
    let query = query.split('&').filter(|it| !it.is_empty());
    let query = query.map(|it| it.split_once('=').unwrap_or((it, "")));
    for (name, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()).chain(query) {
        let value =
            decoded(value).ok_or_else(|| format!("the {name} of the URL is not encoded"))?;
        set(&mut parameters, name, value);
    }
    Ok(parameters)
}

/// `%2F` is `/`; `None` if there are no two digits, or it is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// What a service stands for: in the user's file, or else in the system's.
fn of_service(service: &str, around: &Surroundings) -> Result<Parameters, String> {
    let own = around.get("PGSERVICEFILE").map(PathBuf::from);
    let own = own.or_else(|| around.at_home(".pg_service.conf"));
    let system = around.get("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".to_owned());
    let files: Vec<_> =
        own.into_iter().chain([Path::new(&system).join("pg_service.conf")]).collect();
    for file in &files {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let heading = format!("[{service}]");
        let mut lines = text.lines().map(str::trim);
        if !lines.any(|line| line == heading) {
            continue;
        }
        let lines = lines.take_while(|line| !line.starts_with('['));
        let pairs = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let wrong = || format!("{}: a line of {heading} has no `=`", file.display());
        return pairs.map(pair).collect::<Option<_>>().ok_or_else(wrong);
    }
    let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    Err(format!("there is no service {service:?} in {}", files.join(" or ")))
}

/// The password of the first line that fits: `host:port:dbname:user:password`.
fn of_password_file(file: &Path, parameters: &Parameters) -> Result<Option<String>, String> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(None) };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(file).map(|it| it.permissions().mode()).unwrap_or(0);
        if mode & 0o077 != 0 {
            let file = file.display();
            return Err(format!("{file} may be read by others: its permissions must be 0600"));
        }
    }
    let first = |name| get(parameters, name).and_then(|all| all.split(',').next());
    let host = first("host").or_else(|| first("hostaddr")).unwrap_or("localhost");
    let host = if SOCKETS.contains(&host) { "localhost" } else { host };
    let user = first("user").unwrap_or("");
    let wanted = [host, first("port").unwrap_or("5432"), first("dbname").unwrap_or(user), user];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let passwords = lines.filter_map(|line| {
        let fields = fields(line);
        let [parts @ .., password] = &*fields else { return None };
        let fits = |(part, wanted): (&String, &str)| part == "*" || part == wanted;
        (parts.len() == wanted.len() && parts.iter().zip(wanted).all(fits))
            .then(|| password.clone())
    });
    Ok(passwords.into_iter().next())
}

/// Separated by colons; `\` stands before a colon, or another, that belongs to a field.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            '\\' => field.push(characters.next().unwrap_or('\\')),
            _ => field.push(character),
        }
    }
    fields.push(field);
    fields
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn around(variables: &'static [(&'static str, &'static str)]) -> Surroundings {
        let find = |name: &str| variables.iter().find(|(it, _)| *it == name);
        Surroundings { variable: Box::new(move |name| find(name).map(|it| it.1.to_owned())) }
    }

    fn completed(given: &str, variables: &'static [(&'static str, &'static str)]) -> String {
        joined(&complete(given, "durable_top", &around(variables)).unwrap())
    }

    const NAME: &str = "application_name='durable_top'";

    #[test]
    fn what_is_given_comes_before_what_the_environment_says() {
        let given = completed("host=db  user = shop", &[("PGUSER", "other"), ("PGPORT", "77")]);
        assert_eq!(given, format!("host='db' user='shop' port='77' {NAME}"));
        let given = completed("", &[("PGHOST", "db"), ("USER", "me"), ("PGPASSWORD", "it's")]);
        assert_eq!(given, format!("host='db' password='it\\'s' user='me' {NAME}"));
        let given = completed("shop", &[("PGHOST", "db"), ("PGDATABASE", "other")]);
        assert_eq!(given, format!("dbname='shop' host='db' {NAME}"));
        let given = completed(r"host=db password='a \' \\ b' dbname=c\ d", &[]);
        assert_eq!(given, format!(r"host='db' password='a \' \\ b' dbname='c d' {NAME}"));
        assert!(completed("port=1", &[]).ends_with("host='localhost'"));
    }

    #[test]
    fn a_url_says_the_same_as_its_parts() {
        let url = "postgresql://sh%40p:se%3Acret@[::1]:77,db/shop?sslmode=disable&options=-c%20a";
        let parts = "user='sh@p' password='se:cret' host='::1,db' port='77,5432' dbname='shop'";
        let rest = "sslmode='disable' options='-c a'";
        assert_eq!(completed(url, &[]), format!("{parts} {rest} {NAME}"));
        let given = completed("postgres:///shop?host=db", &[("PGUSER", "me")]);
        assert_eq!(given, format!("dbname='shop' host='db' user='me' {NAME}"));
        let wrong = complete("postgres://a%4@b/c", "durable_top", &around(&[])).unwrap_err();
        assert!(wrong.contains("user"));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for (given, says) in [
            ("host=db password='secret", "the value of password has no end"),
            ("host=db secret", "no `=`"),
            ("host=db service=none", "there is no service \"none\" in /nowhere/services"),
        ] {
            let around = around(&[("PGSERVICEFILE", "/nowhere/services")]);
            let error = complete(given, "durable_top", &around);
            let error = error.unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
    }

    /// A file of its own for each test.
    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str, mode: u32) -> Self {
            let path =
                std::env::temp_dir().join(format!("durable-top-{name}-{}", std::process::id()));
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Self(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_service_comes_before_the_environment() {
        let file = File::new(
            "services",
            "# ours\n[a]\nhost=x\n\n[shop]\nhost = db\nport=77\n[b]\n",
            0o644,
        );
        let path = file.0.display().to_string();
        let variable = move |name: &str| match name {
            "PGSERVICE" => Some("shop".to_owned()),
            "PGSERVICEFILE" => Some(path.clone()),
            "PGHOST" => Some("other".to_owned()),
            _ => None,
        };
        let around = Surroundings { variable: Box::new(variable) };
        let completed = complete("port=5", "durable_top", &around).unwrap();
        assert_eq!(joined(&completed), format!("port='5' host='db' {NAME}"));
    }

    #[test]
    fn the_first_line_of_the_password_file_that_fits_has_the_password() {
        let lines = "# ours\ndb:5432:*:other:wrong\nd\\:b:*:shop:me:a\\:b:c\ndb:*:*:*:any\n";
        let file = File::new("passwords", lines, 0o600);
        let of = |host: &str, user: &str| {
            let parameters = [("host", host), ("user", user), ("dbname", "shop")];
            let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
            of_password_file(&file.0, &parameters.to_vec())
        };
        assert_eq!(of("d:b", "me").unwrap().as_deref(), Some("a:b:c"));
        assert_eq!(of("db", "me").unwrap().as_deref(), Some("any"));
        assert_eq!(of("db", "other").unwrap().as_deref(), Some("wrong"));
        assert_eq!(of("elsewhere", "me").unwrap(), None);
        fs::set_permissions(&file.0, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(of("db", "me").unwrap_err().contains("0600"));
    }
}
